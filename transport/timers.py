"""Timers: functions that are due at a time, for one thread."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from numbers import Real

from ..protocol.errors import ConfigError

LONGEST = 60.0
"""Seconds after which a wait ends without any timer; the kernel takes no number of any size."""

LATE = 0.1
"""Seconds by which a wait is late only where this process stood still: what came meanwhile is read first."""


class Timer:
    """A function due at a time; `cancel` before that and it never runs.

    Args:
        delay: seconds from now; infinite for never.
        function: what is due.

    Raises:
        ConfigError: for a delay that is no number of seconds.
    """

    __slots__ = ("cancelled", "due", "function")

    def __init__(self, delay: float, function: Callable[[], object]) -> None:
        if math.isnan(delay):
            raise ConfigError(f"delay={delay!r} cannot be used: expected seconds, math.inf for never")
        self.due = time.monotonic() + delay
        self.function = function
        self.cancelled = False

    def cancel(self) -> None:
        """Never run the function; safe from any thread and more than once."""
        self.cancelled = True
        self.function = bool  # it stays in the heap until it is due, and must not keep more alive


class Timers:
    """All timers of one thread, which alone uses them.

    Attributes:
        first: when the next one is due, in monotonic seconds; infinite without any.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self.first = math.inf

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, timer: Timer) -> None:
        """One more."""
        heapq.heappush(self._heap, (timer.due, next(self._order), timer))
        self.first = self._heap[0][0]

    def wait_ms(self) -> int | None:
        """Milliseconds until the next one is due, `LONGEST` at most; None without any."""
        if not self._heap:
            return None
        return math.ceil(max(0.0, min(self.first - time.monotonic(), LONGEST)) * 1000)

    def due(self) -> Iterator[Callable[[], object]]:
        """The functions that are due now, each as it is taken away."""
        now = time.monotonic()
        while self._heap and self.first <= now:
            timer = heapq.heappop(self._heap)[2]
            self.first = self._heap[0][0] if self._heap else math.inf
            if not timer.cancelled:
                yield timer.function


def checked_wait(timeout: object) -> float:
    """A time to wait as users give it: in seconds, no more than a thread can wait; 0 and less is no wait.

    Raises:
        ConfigError: for anything else.
    """
    if not isinstance(timeout, Real) or math.isnan(timeout):
        raise ConfigError(f"timeout={timeout!r:.60} cannot be used: expected seconds")
    return min(float(timeout), threading.TIMEOUT_MAX)


def until_next(period: float) -> float:
    """Seconds until the process's next multiple of a period: whatever is due then wakes its thread once."""
    return period - time.monotonic() % period
