"""Runs: what is kept in order, added behind and dropped in front, and read from anywhere in between."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

_SPARE = 1024
"""Dropped places in front that are not worth moving the others for."""


class Run(Generic[T]):
    """A queue whose parts are found without passing those before them; its length counts what is kept.

    To add one, or to drop one, takes the same time however many there are, on average.

    Attributes:
        append: keep one more, behind the others.
    """

    __slots__ = ("_dropped", "_places", "append")

    def __init__(self) -> None:
        self._places: list[T | None] = []
        self._dropped = 0
        self.append = self._places.append

    def __len__(self) -> int:
        return len(self._places) - self._dropped

    @property
    def first(self) -> T:
        """The one that is kept longest.

        Raises:
            IndexError: when none is.
        """
        return self._places[self._dropped]  # pyright: ignore[reportReturnType]

    def part(self, start: int, stop: int) -> list[T]:
        """Those from one place to before another, counted from the first one; none when there are none."""
        if start >= stop:
            return []
        return self._places[self._dropped + start : self._dropped + stop]  # pyright: ignore[reportReturnType]

    def at(self, place: int) -> T:
        """The one in a place, counted from the first one."""
        return self._places[self._dropped + place]  # pyright: ignore[reportReturnType]

    def replace(self, place: int, other: T) -> None:
        """Another one in a place, counted from the first one."""
        self._places[self._dropped + place] = other

    def drop(self, count: int) -> None:
        """Forget the first ones, so many that there are."""
        places, end = self._places, self._dropped + count
        if end > _SPARE and 2 * end >= len(places):
            del places[:end]
            self._dropped = 0
        else:
            places[self._dropped : end] = [None] * count
            self._dropped = end
