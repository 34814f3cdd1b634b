"""Figures of many numbers that can be added up: count, mean, spread, extremes and quantiles.

Quantiles come from counts in bins whose borders grow by 2 %, so they are within 1 % of a number that was
there, whatever the range. Pure; knows no Spark, no file and no clock.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

_GROWTH = 1.02
_LOG = math.log(_GROWTH)
_SHIFT = 40_000
"""More than the bins between 1 and the smallest or greatest double: no index changes its sign."""
_GREATEST = 35_900


class Figures(msgspec.Struct, array_like=True):
    """Figures of a set of numbers.

    Attributes:
        count: of numbers.
        mean: of them; 0 when there is none.
        squares: sum of the squared differences from the mean.
        least: smallest number, infinity when there is none.
        greatest: greatest number, minus infinity when there is none.
        bins: count by bin; a bin with a greater index holds greater numbers.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    greatest: float = -math.inf
    bins: dict[int, int] = {}

    def add(self, other: Figures) -> None:
        """Count the numbers of another set as well; ``other`` stays as it is."""
        if not other.count:
            return
        count = self.count + other.count
        difference = other.mean - self.mean
        if math.isfinite(difference):
            self.mean = other.mean if not self.count else self.mean + difference * other.count / count
        else:  # a sum of infinite numbers, whose differences are none
            self.mean = self.mean * self.count / count + other.mean * other.count / count
        self.squares += other.squares + difference * difference * self.count * other.count / count
        self.count = count
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        self.bins = {**self.bins, **{i: self.bins.get(i, 0) + number for i, number in other.bins.items()}}

    def std(self) -> float | None:
        """Standard deviation of the population; None without numbers, NaN with an infinite one."""
        return math.sqrt(max(self.squares, 0.0) / self.count) if self.count else None

    def quantile(self, share: float) -> float | None:
        """The number below which ``share`` (0 to 1) of them are, within 1 %; None without numbers."""
        rank, seen = share * (self.count - 1), 0
        for index in sorted(self.bins):
            seen += self.bins[index]
            if seen > rank:
                return min(max(_middle(index), self.least), self.greatest)
        return None


def bin_of(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Index of each number's bin; numbers must not be NaN."""
    with np.errstate(divide="ignore"):
        order = np.ceil(np.log(np.abs(numbers)) / _LOG)
    index = np.clip(order, -_GREATEST - 1_800, _GREATEST).astype(np.int64) + _SHIFT
    return np.where(numbers == 0, 0, np.where(numbers < 0, -index, index))


def _middle(index: int) -> float:
    if index == 0:
        return 0.0
    with np.errstate(over="ignore"):  # the last bins reach beyond the greatest double
        size = 2 * float(np.exp((abs(index) - _SHIFT) * _LOG)) / (_GROWTH + 1)
    return math.copysign(size, index)


def figures_of(numbers: NDArray[np.float64], starts: NDArray[np.int64]) -> list[Figures]:
    """Figures of each group of numbers.

    Args:
        numbers: of all groups, one group behind the other; NaN is none and is not counted.
        starts: where each group begins; no group is empty.
    """
    if not len(starts):
        return []
    good = ~np.isnan(numbers)
    clean = np.where(good, numbers, 0.0)
    counts = np.add.reduceat(good.astype(np.int64), starts)
    with np.errstate(all="ignore"):
        means = np.add.reduceat(clean, starts) / np.maximum(counts, 1)
        lengths = np.diff(starts, append=len(numbers))
        away = np.where(good, numbers - np.repeat(means, lengths), 0.0)
        squares = np.add.reduceat(away * away, starts)
    least = np.minimum.reduceat(np.where(good, numbers, np.inf), starts)
    greatest = np.maximum.reduceat(np.where(good, numbers, -np.inf), starts)
    bins = _bins(numbers[good], np.repeat(np.arange(len(starts)), lengths)[good], len(starts))
    columns = (counts, means, squares, least, greatest)
    return [
        Figures(count, mean, square, low, high, found)
        for count, mean, square, low, high, found in zip(
            *(column.tolist() for column in columns), bins, strict=True
        )
    ]


def _bins(numbers: NDArray[np.float64], groups: NDArray[np.int64], count: int) -> list[dict[int, int]]:
    found: list[dict[int, int]] = [{} for _ in range(count)]
    pairs, sizes = np.unique(groups * (4 * _SHIFT) + bin_of(numbers) + 2 * _SHIFT, return_counts=True)
    group, index = np.divmod(pairs, 4 * _SHIFT)
    for one, place, size in zip(group.tolist(), (index - 2 * _SHIFT).tolist(), sizes.tolist(), strict=True):
        found[one][place] = size
    return found
