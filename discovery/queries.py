"""Queries: which processes to ask for what is missing of them, and when."""

from __future__ import annotations

from collections.abc import Callable

from .deadlines import Deadlines

MAX_ASKS = 32
"""Processes that are asked at once."""

_FIRST, _LONGEST, _LATEST = 0.25, 2.0, 2.5


class Queries:
    """A process is asked 50 to 150 ms after something of it was missed, then after 0.25, 0.5, 1, 2, 2, ... s.

    Each pause is up to a quarter shorter or longer. It begins anew when somebody else asks, as the answer may
    come to all, or only to where that one is heard: so it never ends later than 2.5 s after it was missed, or
    asked for here.

    Args:
        chance: evenly distributed numbers from 0 to 1.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._times = Deadlines[bytes]()
        self._asked: dict[bytes, int] = {}
        self._latest: dict[bytes, float] = {}

    @property
    def next(self) -> float | None:
        """When to call `due`."""
        return self._times.next

    def missing(self, process: bytes, now: float) -> None:
        """Something of a process is missing; it may still be on its way."""
        if process not in self._times:
            self._times.set(process, now + 0.05 + 0.1 * self._chance())
            self._latest[process] = now + _LATEST

    def done(self, process: bytes) -> None:
        """Nothing is missing."""
        self._times.drop(process)
        self._asked.pop(process, None)
        self._latest.pop(process, None)

    def others_ask(self, process: bytes, now: float) -> None:
        """Somebody else has asked."""
        if process in self._times:
            self._pause(process, now)

    def due(self, now: float) -> list[bytes]:
        """Whom to ask now, at most 32; they will be asked again unless they are `done`."""
        processes = self._times.due(now, MAX_ASKS)
        for process in processes:
            self._latest[process] = now + _LATEST
            self._pause(process, now)
        return processes

    def _pause(self, process: bytes, now: float) -> None:
        asked = self._asked.get(process, 0)
        self._asked[process] = asked + 1
        pause = min(_LONGEST, _FIRST * 2.0 ** min(asked, 8))
        later = now + pause * (0.75 + 0.5 * self._chance())
        self._times.set(process, min(later, self._latest[process]))
