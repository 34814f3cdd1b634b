"""Standstill: for how long this process itself stood still, so that nobody else was silent then.

A process that was stopped (SIGSTOP, a debugger, a suspended machine, a long wait for the interpreter) heard
nobody meanwhile, and would take all others for dead when it goes on. Whoever judges others by their silence
looks at them regularly; a look that comes late says how late, and by that the others are excused::

    state              event           next                     returned
    looked at t        look(now)       looked at now            now - t - period, at least 0

All that judges asks before it does, and before what has arrived meanwhile counts as late.
"""

from __future__ import annotations


class Standstill:
    """See the module's docstring. Times are seconds of one monotonic clock.

    Args:
        period: most seconds between two looks of a process that goes on.
        now: the first look.
    """

    __slots__ = ("_looked", "_period")

    def __init__(self, period: float, now: float) -> None:
        self._period = period
        self._looked = now

    def look(self, now: float) -> float:
        """Seconds for which this process stood still since the last look."""
        stood = now - self._looked - self._period
        self._looked = max(self._looked, now)
        return max(0.0, stood)
