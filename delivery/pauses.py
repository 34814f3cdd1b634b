"""Pauses: how long to wait before something that was not answered is tried again.

::

    event      then a pause of
    failed     first, twice that, four times that, … at most longest
    answered   none; the next one is first again
"""

from __future__ import annotations


class Pauses:
    """Pauses between repetitions: ``first`` seconds, then twice as much each time, at most ``longest``."""

    __slots__ = ("_count", "_first", "_longest", "until")

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._count = 0
        self.until = float("-inf")

    def failed(self, now: float) -> None:
        """Something was not answered."""
        self.until = now + min(self._first * 2.0**self._count, self._longest)
        self._count = min(self._count + 1, 64)

    def answered(self) -> None:
        """Something was."""
        self._count = 0
        self.until = float("-inf")
