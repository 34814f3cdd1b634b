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
    """The last number of each topic that was sent of late."""

    def __init__(self) -> None:
        self._fresh: dict[str, int] = {}
        self._older: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._fresh) + len(self._older.keys() - self._fresh.keys())

    def topics(self) -> set[str]:
        """Those that are still to be told."""
        return {*self._fresh, *self._older}

    def sent(self, topic: str, number: int) -> None:
        """The newest message of a topic is on its way."""
        self._fresh[topic] = number

    def beat(self) -> dict[str, int]:
        """The topics to be told now, with their last numbers."""
        aged = {topic: (number, age + 1) for topic, (number, age) in self._older.items()}
        aged |= {topic: (number, 1) for topic, number in self._fresh.items()}
        self._fresh = {}
        self._older = {topic: (number, age) for topic, (number, age) in aged.items() if age < BEATS}
        return {topic: number for topic, (number, age) in aged.items() if not age & (age - 1)}

    def end(self) -> dict[str, int]:
        """All that would still be told, and nothing afterwards."""
        told = {topic: number for topic, (number, _) in self._older.items()} | self._fresh
        self._fresh, self._older = {}, {}
        return told
