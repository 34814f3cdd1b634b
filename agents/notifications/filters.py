"""Filters: who asked for what at a PUB endpoint.

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
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from ...delivery.interests import EACH
from ...protocol.frames import PZC01

_BYTES = 32 << 20
"""Bytes of the different filters of one PUB endpoint, each counted with `EACH` more."""


ANY = "*"
"""Topic of a subscription to everything that an agent publishes."""

MARK_TOPIC = "__placed__"
"""Filters on this topic mark a subscription, and how far the PUB socket has read its filters."""

MAX_LENGTH = 4096
"""Longest filter in bytes, its first byte included."""


def mark_filter(agent_id: str, mark: str, topic: str) -> bytes:
    """Bytes that mark a subscription to a topic; ``mark`` is ``<who>.<number>`` without ``+``."""
    return f"{PZC01}+{agent_id}+{MARK_TOPIC}+{mark}+{topic}".encode()


def _ignore(prefix: bytes, change: int) -> None:
    pass


class Filters:
    """The filters that are held, and the marks among them.

    Args:
        agent_id: of the publisher.
        on_change: gets each filter that has come, with 1, or gone, with -1.
    """

    def __init__(self, agent_id: str, on_change: Callable[[bytes, int], object] = _ignore) -> None:
        self._on_change = on_change
        self._everything = f"{PZC01}+{agent_id}+".encode()
        self._mark_start = mark_filter(agent_id, "", "")[:-1]
        self._held: set[bytes] = set()
        self._bytes = 0
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
            self._on_change(prefix, -1)
            self._mark(prefix, -1, turn())
        elif self._bytes + len(prefix) + EACH <= _BYTES:
            self._held.add(prefix)
            self._bytes += len(prefix) + EACH
            self._on_change(prefix, 1)
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
        foreign: Iterable[bytes],
        others: AbstractSet[str] = frozenset(),
    ) -> int:
        """Agents that marked a subscription to a topic, and foreign filters that match it.

        A filter on exactly one topic, or on all of this agent, is an agent's own and will be
        marked: it is counted then.

        Args:
            topic: to be published.
            header: beginning of its PZC01 header.
            foreign: whole headers in which it is sent besides.
            others: agents that listen in another way, each of which counts once.
        """
        count = len(others | self.who(topic))
        for end in range(len(header)):
            general = end < len(self._everything)
            count += (general or header[end - 1 : end] != b"+") and header[:end] in self._held
        least = len(PZC01)  # shorter ones are counted already
        besides = {each[:end] for each in foreign for end in range(least, len(each) + 1)}
        return count + len(besides & self._held)
