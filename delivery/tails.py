"""Tails: which last numbers are to be told again, because what has them may have been lost.

A topic is told at the 1st, 2nd, 4th, 8th, … beat after the last message of it, until `BEATS`::

    event      effect
    sent       the topic's age is 0
    beat       every age grows by one; told are those whose age is a power of two
    age BEATS  told for the last time, forgotten
"""

from __future__ import annotations

BEATS = 64
"""Beats after which a topic is not told any more."""


class Tails:
    """The last number of each topic that was sent of late; a beat looks only at those that it tells."""

    def __init__(self) -> None:
        self._beat = 0
        self._last: dict[str, tuple[int, int]] = {}  # number, and the beat after which it was sent
        self._due: dict[int, dict[str, None]] = {}  # by beat; some of it was sent again meanwhile

    def __len__(self) -> int:
        return len(self._last)

    def __contains__(self, topic: str) -> bool:
        return topic in self._last

    def sent(self, topic: str, number: int) -> None:
        """The newest message of a topic is on its way."""
        self._last[topic] = number, self._beat
        self._plan(topic, self._beat + 1)

    def beat(self) -> dict[str, int]:
        """The topics to be told now, with their last numbers."""
        self._beat += 1
        told = dict[str, int]()
        for topic in self._due.pop(self._beat, ()):
            number, since = self._last[topic]
            age = self._beat - since
            if age & (age - 1):
                continue
            told[topic] = number
            if age < BEATS:
                self._plan(topic, since + 2 * age)
            else:
                del self._last[topic]
        return told

    def end(self) -> dict[str, int]:
        """All that would still be told, and nothing afterwards."""
        told = {topic: number for topic, (number, _) in self._last.items()}
        self._last, self._due = {}, {}
        return told

    def _plan(self, topic: str, beat: int) -> None:
        self._due.setdefault(beat, {})[topic] = None
