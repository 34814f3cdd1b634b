"""Deadlines: many keys, each with one time that mostly moves on, and which of them have come."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Deadlines(Generic[T]):
    """One time per key, in monotonic seconds; a later one costs nothing until the earlier is the first."""

    __slots__ = ("_count", "_heap", "_stands", "_times")

    def __init__(self) -> None:
        self._times: dict[T, float] = {}
        self._stands: dict[T, float] = {}  # the earliest time at which a key stands in the heap
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0  # keys need not be comparable

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: T) -> bool:
        return key in self._times

    def set(self, key: T, time: float) -> None:
        """Give a key its time, instead of the one it may have."""
        self._times[key] = time
        stands = self._stands.get(key)
        if stands is None or time < stands:
            self._push(key, time)

    def postpone(self, seconds: float) -> None:
        """Move every time on."""
        for key in self._times if seconds else ():
            self._times[key] += seconds

    def drop(self, key: T) -> None:
        """Forget a key, if it is there."""
        self._times.pop(key, None)

    @property
    def next(self) -> float | None:
        """The first time, when to call `due`; None without keys."""
        while self._heap:
            stands, _, key = self._heap[0]
            time = self._times.get(key)
            live = self._stands.get(key) == stands
            if live and time == stands:
                return time
            heapq.heappop(self._heap)
            if live:
                del self._stands[key]
                if time is not None:
                    self._push(key, time)
        return None

    def due(self, now: float, most: int | None = None) -> list[T]:
        """Take out the keys whose time has come, at most ``most``, the earliest first."""
        found: list[T] = []
        while len(found) != most and (time := self.next) is not None and time <= now:
            *_, key = heapq.heappop(self._heap)
            del self._stands[key], self._times[key]
            found.append(key)
        return found

    def _push(self, key: T, time: float) -> None:
        self._count += 1
        self._stands[key] = time
        heapq.heappush(self._heap, (time, self._count, key))
