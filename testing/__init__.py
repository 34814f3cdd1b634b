"""Helpers for tests of code that uses pzc. No layer imports them."""

from .clock import FakeClock

__all__ = ["FakeClock"]
