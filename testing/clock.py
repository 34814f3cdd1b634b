"""A clock that stands still until it is told otherwise, and a wall clock that is set anew."""

from __future__ import annotations

import sys
import time
from types import BuiltinFunctionType, FunctionType
from typing import Any


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


class ShiftedClock:
    """Lets this process see another wall clock while its ``with`` block runs; the monotonic one goes on.

    What began before the block sees a clock that is set; what begins in it has one that is wrong.

    Args:
        seconds: how far the clock is ahead of that of the machine; negative when it is behind.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._replaced: dict[Any, Any] = {}

    def __enter__(self) -> ShiftedClock:
        real, real_ns, seconds = time.time, time.time_ns, self._seconds
        self._replaced = {
            real: lambda: real() + seconds,
            real_ns: lambda: real_ns() + int(seconds * 1e9),
        }
        _replace(self._replaced)
        return self

    def __exit__(self, *exc: object) -> None:
        _replace({shifted: real for real, shifted in self._replaced.items()})


def _replace(functions: dict[Any, Any]) -> None:
    for module in filter(None, list(sys.modules.values())):  # None stands for what cannot be imported
        for name in ("time", "time_ns"):
            found = vars(module).get(name)
            if isinstance(found, FunctionType | BuiltinFunctionType) and found in functions:
                setattr(module, name, functions[found])
