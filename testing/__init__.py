"""Helpers for tests of code that uses pzc. No layer imports them.

``pzc.testing.journals`` makes journals in bulk, needs the extra ``pzc[pipeline]`` and is imported by name.
"""

from .clock import FakeClock
from .memory import memory_pair
from .timings import Timings

__all__ = ["FakeClock", "Timings", "memory_pair"]
