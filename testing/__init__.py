"""Helpers for tests of code that uses pzc. No layer imports them.

``pzc.testing.journals`` makes journals in bulk, needs the extra ``pzc[pipeline]`` and is imported by name.
"""

from .clock import FakeClock, ShiftedClock
from .commands import Result, Running, command
from .memory import memory_pair
from .timings import Timings

__all__ = ["FakeClock", "Result", "Running", "ShiftedClock", "Timings", "command", "memory_pair"]
