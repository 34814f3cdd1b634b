"""IntervalSet of whole numbers: which sequence numbers and offsets were seen, in the space of their gaps.

Pure; knows no Spark, no file and no clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

Span = tuple[int, int]
"""First and last number of a range, both included."""


class IntervalSet:
    """A set of whole numbers, kept as the ranges without a hole between them, in order.

    Args:
        flat: first and last numbers in turn, as `flat` gives them.
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, flat: Iterable[int] = ()) -> None:
        numbers = list(flat)
        self._firsts, self._lasts = numbers[0::2], numbers[1::2]

    def __iter__(self) -> Iterator[Span]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self._firsts)

    @property
    def last(self) -> int | None:
        """The greatest number; None when there is none."""
        return self._lasts[-1] if self._lasts else None

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def flat(self) -> list[int]:
        """First and last numbers in turn, which make the same set again."""
        return [number for span in self for number in span]

    def overlap(self, first: int, last: int) -> list[Span]:
        """What is in both this set and the range, in order."""
        at = bisect_left(self._lasts, first)
        found: list[Span] = []
        while at < len(self._firsts) and self._firsts[at] <= last:
            found.append((max(first, self._firsts[at]), min(last, self._lasts[at])))
            at += 1
        return found

    def covers(self, first: int, last: int) -> bool:
        """Whether all numbers of a range are in this set; an empty range always is."""
        return first > last or self.overlap(first, last) == [(first, last)]

    def add(self, first: int, last: int) -> None:
        """Add a range; what is there already stays."""
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high], self._lasts[low:high] = [first], [last]

    def update(self, other: Iterable[Span]) -> None:
        """Add ranges."""
        for first, last in other:
            self.add(first, last)

    def common(self, other: Iterable[Span]) -> Iterator[Span]:
        """What is in both this set and some ranges, range by range."""
        return (both for first, last in other for both in self.overlap(first, last))

    @property
    def missing(self) -> int:
        """How many numbers are absent between the first and the last one."""
        return self._lasts[-1] - self._firsts[0] + 1 - self.count if self._firsts else 0

    def holes(self) -> Iterator[Span]:
        """The ranges that are absent between the first and the last number."""
        return ((last + 1, first - 1) for last, first in zip(self._lasts, self._firsts[1:], strict=False))


def note_offsets(known: dict[str, IntervalSet], offsets: Mapping[str, list[int]]) -> None:
    """Add offsets by recorder, given as ranges."""
    for recorder, runs in offsets.items():
        known.setdefault(recorder, IntervalSet()).update(IntervalSet(runs))
