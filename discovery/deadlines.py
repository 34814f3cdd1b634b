"""Deadlines: many keys, each with one time that mostly moves on, and which of them have come."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


class Deadlines(dict[T, float]):
    """One time per key, in monotonic seconds; the first of them is found by looking at all."""

    @property
    def next(self) -> float | None:
        """The first time, when to call `due`; None without keys."""
        return min(self.values(), default=None)

    def due(self, now: float, most: int | None = None) -> list[T]:
        """Take out the keys whose time has come, at most ``most``, the earliest first."""
        found = sorted((key for key, time in self.items() if time <= now), key=self.__getitem__)[:most]
        for key in found:
            del self[key]
        return found
