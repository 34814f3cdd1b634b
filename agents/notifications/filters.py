"""Filters: who asked for what at a PUB endpoint, and in which voices that is broadcast.

Pure state; the publisher holds a lock around it::

    message of the XPUB socket                   effect
    1 + bytes                                    that filter is held
    0 + bytes                                    its last holder gave it up
    a filter ``PZC01+<agent>+__placed__+…``      also a mark: one subscription of one agent
    anything else, or beyond the bounds          refused

Whoever reaches the PUB endpoint can cancel filters that others hold: the socket reports it, does
not tell whose they were, and goes on serving the others. So a subscriber adds a mark, a filter
nobody can guess, and keeps it as long as its subscription: its topic is wanted until that is gone.
Only marks are counted one by one; a socket may ask for the same filter any number of times.

A mark also remembers the last number of its topic when it came: what is numbered later reaches the
subscription, and what was numbered before is not part of it. A mark of `ANY` remembers nothing: a copy of
the numbers of all topics would be work and memory that anybody can ask for without a key.

A voice is a dialect and a sender::

    dialect   sender
    PZC01     the agent id
    PZC00     the REP endpoint
    PZC00     behind a wildcard address: each name, with its port, by which filters of originals call it, too:
              an original listens to the endpoint that it reached the agent by
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from ...delivery.interests import EACH
from ...protocol.frames import MAX_HEADER, PZC00, PZC01, topic_filter
from ...transport.endpoints import as_original, at_port_of, is_wildcard

_BYTES = 32 << 20
"""Bytes of the different filters of one PUB endpoint, each counted with `EACH` more."""


ANY = "*"
"""Topic of a subscription to everything that an agent publishes."""

MARK_TOPIC = "__placed__"
"""Filters on this topic mark a subscription, and how far the PUB socket has read its filters."""

MAX_LENGTH = 4096
"""Longest filter in bytes, its first byte included."""

MAX_NAMES = 64
"""Most names by which originals are served that have reached one wildcard address."""

Voice = tuple[str, str]
"""Dialect and sender."""


def mark_filter(agent_id: str, mark: str, topic: str) -> bytes:
    """Bytes that mark a subscription to a topic; ``mark`` is ``<who>.<number>`` without ``+``."""
    return f"{PZC01}+{agent_id}+{MARK_TOPIC}+{mark}+{topic}".encode()


class Filters:
    """The filters that are held, and the marks among them.

    Args:
        agent_id: of the publisher.
    """

    def __init__(self, agent_id: str) -> None:
        self._everything = f"{PZC01}+{agent_id}+".encode()
        self._mark_start = mark_filter(agent_id, "", "")[:-1]
        self._held: set[bytes] = set()
        self._bytes = 0
        self._originals: Counter[str] = Counter()
        self._marks: dict[str, int | None] = {}
        self._who: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def __len__(self) -> int:
        return len(self._held)

    def take(self, message: bytes, turn: Callable[[], Mapping[str, int]]) -> bool:
        """Follow one message of the XPUB socket; False when it is refused.

        Args:
            message: as received.
            turn: called when a filter has come or gone; the last number of each topic at that moment.
        """
        if message[:1] not in (b"\0", b"\1") or len(message) > MAX_LENGTH:
            return False
        prefix, held = message[1:], message[1:] in self._held
        if message[0] == held:
            return bool(held)
        if held:
            self._held.remove(prefix)
            self._bytes -= len(prefix) + EACH
            self._count_original(prefix, -1)
            self._mark(prefix, -1, turn())
        elif self._bytes + len(prefix) + EACH <= _BYTES:
            self._held.add(prefix)
            self._bytes += len(prefix) + EACH
            self._count_original(prefix, 1)
            self._mark(prefix, 1, turn())
        else:
            return False
        return True

    def marked(self, message: bytes) -> str:
        """Topic of the mark that a message of the XPUB socket sets, be it held already; else empty."""
        if not message.startswith(b"\1" + self._mark_start):
            return ""
        return message[1 + len(self._mark_start) :].decode(errors="replace").partition("+")[2]

    def _mark(self, prefix: bytes, change: int, lasts: Mapping[str, int]) -> None:
        if not prefix.startswith(self._mark_start):
            return
        mark, _, topic = prefix[len(self._mark_start) :].decode(errors="replace").partition("+")
        self._marks.pop(mark, None)
        if change > 0:
            self._marks[mark] = None if topic == ANY else lasts.get(topic, 0)
        who, agents = mark.partition(".")[0], self._who[topic]
        agents[who] += change
        if not agents[who]:
            del agents[who]
        if not agents:
            del self._who[topic]

    def originals(self) -> list[str]:
        """By what the filters of original peers name this agent, in the order in which they came."""
        return list(self._originals)

    def _count_original(self, prefix: bytes, change: int) -> None:
        parts = prefix.split(b"+", 2)
        if len(parts) != 3 or parts[0] != PZC00.encode():
            return
        name = parts[1].decode(errors="replace")
        self._originals[name] += change
        if not self._originals[name]:
            del self._originals[name]

    def has_mark(self, mark: str) -> bool:
        """True while that mark is held."""
        return mark in self._marks

    def last_at(self, mark: str) -> int | None:
        """The last number of the mark's topic when it came; None for ``*``.

        Raises:
            KeyError: when that mark is not held.
        """
        return self._marks[mark]

    def is_marked(self, topic: str) -> bool:
        """True while some agent has marked a subscription to that topic, or to all."""
        return topic in self._who or ANY in self._who

    def who(self, topic: str) -> set[str]:
        """What those are known by who marked a subscription to a topic, or to all."""
        return {*self._who.get(topic, ()), *self._who.get(ANY, ())}

    def matches(self, header: bytes) -> bool:
        """True when a held filter is the beginning of a header."""
        return any(header[:end] in self._held for end in range(len(header) + 1))

    def listeners(
        self,
        topic: str,
        header: bytes,
        original_headers: Sequence[bytes],
        others: AbstractSet[str] = frozenset(),
    ) -> int:
        """Agents that marked a subscription to a topic, and foreign filters that match it.

        A filter on exactly one topic, or on all of this agent, is an agent's own and will be
        marked: it is counted then.

        Args:
            topic: to be published.
            header: beginning of its PZC01 header.
            original_headers: its PZC00 headers, one for each name that originals know the agent by.
            others: agents that listen in another way, each of which counts once.
        """
        count = len(others | self.who(topic))
        for end in range(len(header)):
            general = end < len(self._everything)
            count += (general or header[end - 1 : end] != b"+") and header[:end] in self._held
        least = len(PZC00)  # shorter ones are the same in both dialects
        original = {each[:end] for each in original_headers for end in range(least, len(each) + 1)}
        return count + len(original & self._held)


class Voices:
    """The voices of one publisher.

    Args:
        agent_id: of its agent.
        rep_endpoint: under which that is known.
        filters: that are held at its PUB endpoint.
        speaks: tells of a dialect and a topic whether it may be spoken.
    """

    def __init__(
        self, agent_id: str, rep_endpoint: str, filters: Filters, speaks: Callable[[str, str], bool]
    ) -> None:
        self.own: Voice = (PZC01, agent_id)
        self._original: Voice = (PZC00, as_original(rep_endpoint))
        self._filters = filters
        self._speaks = speaks

    def all(self, topic: str) -> tuple[Voice, ...]:
        """In which somebody listens to a topic."""
        return tuple(voice for voice in self.of((PZC01, PZC00), topic) if self._is_heard(voice, topic))

    def of(self, dialects: Iterable[str], topic: str) -> tuple[Voice, ...]:
        """Of some dialects, as far as they may be spoken, whoever listens to a topic."""
        voices: list[Voice] = []
        for dialect in (each for each in dialects if self._speaks(each, topic)):
            if dialect == PZC01:
                voices.append(self.own)
            else:
                voices += [self._original, *(v for v in self._others(topic) if self._is_heard(v, topic))]
        return tuple(voices)

    def headers(self, topic: str) -> tuple[bytes, list[bytes]]:
        """Beginning of a topic's header in PZC01, and in PZC00 by every name."""
        voices = self._original, *self._others(topic)
        return topic_filter(*self.own, topic), [topic_filter(*voice, topic) for voice in voices]

    def _others(self, topic: str) -> list[Voice]:
        own = self._original[1]
        if not is_wildcard(own):
            return []
        room = MAX_HEADER - len(PZC00) - 2 - len(topic.encode(errors="replace"))
        asked = (name for name in self._filters.originals() if len(name) <= room and name != own)
        return [(PZC00, name) for name in asked if at_port_of(own, name)][:MAX_NAMES]

    def _is_heard(self, voice: Voice, topic: str) -> bool:
        marked = voice == self.own and self._filters.is_marked(topic)
        return marked or self._filters.matches(topic_filter(*voice, topic))
