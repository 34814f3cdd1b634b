"""Voices: in which dialects, and under which sender, a publisher broadcasts a topic.

::

    dialect   sender
    PZC01     the agent id
    PZC00     the REP endpoint
    PZC00     behind a wildcard address: each name, with its port, by which filters of originals call it, too:
              an original listens to the endpoint that it reached the agent by
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...protocol.frames import MAX_HEADER, PZC00, PZC01, topic_filter
from ...transport.endpoints import as_original, at_port_of, is_wildcard
from .filters import Filters

MAX_NAMES = 64
"""Most names by which originals are served that have reached one wildcard address."""

Voice = tuple[str, str]
"""Dialect and sender."""


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
