"""Helpers for tests of code that uses pzc. No layer imports them."""

from .clock import FakeClock
from .memory import memory_pair

__all__ = ["FakeClock", "memory_pair"]
