"""A clock that stands still until it is told otherwise."""

from __future__ import annotations


class FakeClock:
    """Callable like ``time.monotonic`` or ``time.time``.

    Args:
        now: first reading in seconds.

    Attributes:
        now: current reading in seconds; set it to step the clock.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The current reading in seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: for a negative number; set `now` to step the clock backwards.
        """
        if seconds < 0:
            raise ValueError(f"time passes forwards: {seconds} s")
        self.now += seconds
