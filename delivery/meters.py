"""Meters: how many messages, how large, how fast and how old, in memory that does not grow.

`Histogram` counts values by size, in steps of a sixteenth of a power of two: a quantile that it tells is at
most 3.2 % away from a value of that rank, for values from 1 µs to 9 hours; smaller and larger ones count as
these. Count, mean, minimum and maximum are exact.

`Meter` has a rate over the last `SPAN` seconds, to be asked at any time::

    event              effect
    add(now, n, size)  counts of the second that ``now`` lies in grow; those older than `SPAN` are forgotten
    rate(now)          messages and bytes in a second, over the whole seconds before ``now`` that were
                       measured, at most `SPAN`; in the first second, since the first message

Time comes in as seconds of a clock that does not go back.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from typing import NamedTuple

SPAN = 10
"""Seconds that a rate is measured over."""

_FINE = 16  # steps of a power of two
_STEPS = 2.0 * _FINE  # of the fractions from 0 to 1, of which `math.frexp` gives the upper half
_LEAST, _MOST = 2.0**-20, 2.0**15
_LONG_AGO = -math.inf
_frexp = math.frexp


class Spread(NamedTuple):
    """What a histogram tells of its values; zeros when it has none.

    Attributes:
        measured: how many values.
        min: the least.
        mean: of all.
        max: the largest.
        p99: 99 of 100 are at most this, to within 3.2 %.
    """

    measured: int = 0
    min: float = 0.0
    mean: float = 0.0
    max: float = 0.0
    p99: float = 0.0


class Histogram:
    """Values by size; at most 560 numbers, whatever comes."""

    __slots__ = ("_buckets", "_max", "_min", "_sum", "count")

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._min = math.inf
        self._max = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, value: float) -> None:
        """One value more; a negative one counts as 0."""
        if value < 0.0:
            value = 0.0
        self.count += 1
        self._sum += value
        if value < self._min:
            self._min = value
        if value > self._max:
            self._max = value
        fraction, exponent = _frexp(value if _LEAST <= value <= _MOST else _LEAST if value < 1.0 else _MOST)
        bucket, buckets = exponent * _FINE + int(fraction * _STEPS), self._buckets
        buckets[bucket] = buckets.get(bucket, 0) + 1

    def quantile(self, part: float) -> float:
        """The value that this part of all, from 0 to 1, does not exceed; 0 without values."""
        left = max(1, math.ceil(part * self.count))
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                exponent, step = divmod(bucket - _FINE, _FINE)
                middle = math.ldexp((_FINE + step + 0.5) / (2 * _FINE), exponent)
                return min(max(middle, self._min), self._max)
        return 0.0

    def spread(self) -> Spread:
        """What there is to tell."""
        if not self.count:
            return Spread()
        return Spread(self.count, self._min, self._sum / self.count, self._max, self.quantile(0.99))


class Rate(NamedTuple):
    """Messages and bytes in a second."""

    messages: float = 0.0
    bytes: float = 0.0


class Meter:
    """Messages of one topic, or one subscription.

    Attributes:
        messages: so far.
        bytes: of their contents, so far.
    """

    __slots__ = ("_began", "_next", "_seconds", "bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self._began: float | None = None
        self._next = _LONG_AGO  # begin of the next second
        # Which second, and how many messages and bytes there were before it; replaced as a whole.
        self._seconds: tuple[tuple[int, int, int], ...] = ()

    def add(self, now: float, messages: int, size: int) -> None:
        """So many messages more, of so many bytes together."""
        if now >= self._next:
            self._turn(now)
        self.messages += messages
        self.bytes += size

    def _turn(self, now: float) -> None:
        if self._began is None:
            self._began = now
        second = int(now)
        self._next = second + 1.0
        self._seconds = (*self._seconds[-SPAN - 1 :], (second, self.messages, self.bytes))

    def rate(self, now: float) -> Rate:
        """Messages and bytes in a second, of late."""
        if self._began is None:
            return Rate()
        second = int(now)
        since = max(self._began, float(second - SPAN))
        passed, after = second - since, self._before(second)
        if passed < 1.0:  # no whole second yet: what there is, over the time that there was
            passed, after = max(now - since, 1.0), (self.messages, self.bytes)
        before = self._before(int(since))
        return Rate((after[0] - before[0]) / passed, (after[1] - before[1]) / passed)

    def _before(self, second: int) -> tuple[int, int]:
        """Messages and bytes until a second began."""
        for begun, messages, size in self._seconds:
            if begun >= second:
                return messages, size
        return self.messages, self.bytes


class Intervals:
    """Times between messages within a window.

    Args:
        window: seconds that are looked at.
        most: times that are remembered.

    Attributes:
        times: those of the messages in the window, oldest first.
    """

    def __init__(self, window: float, most: int = 100_000) -> None:
        self._window = window
        self.times: deque[float] = deque(maxlen=most)

    def add(self, time: float) -> None:
        """One message more."""
        self.times.append(time)

    def forget(self, now: float) -> None:
        """Look at the window that ends now; what is later came before the clock was set back."""
        times = self.times
        while times and not now - self._window <= times[0] <= now:
            times.popleft()

    def tell(self) -> Told:
        """What is in the window."""
        times = list(self.times)
        gaps = [later - earlier for earlier, later in pairwise(times)]
        if not gaps:
            return Told(len(times))
        mean = math.fsum(gaps) / len(gaps)
        variance = math.fsum((gap - mean) ** 2 for gap in gaps) / len(gaps)
        rate = 1.0 / mean if mean > 0.0 else 0.0
        return Told(len(times), rate, min(gaps), max(gaps), math.sqrt(variance))


class Told(NamedTuple):
    """The messages of a window.

    Attributes:
        messages: how many.
        rate_hz: the inverse of the mean interval; 0 for fewer than two messages.
        min_s: shortest interval.
        max_s: longest interval.
        std_s: standard deviation of the intervals.
    """

    messages: int = 0
    rate_hz: float = 0.0
    min_s: float = 0.0
    max_s: float = 0.0
    std_s: float = 0.0
