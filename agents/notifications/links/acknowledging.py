"""AcknowledgementScheduler: when a publisher is told what its reader is done with.

::

    state    event                                     next
    any      news that are to be told now              as it was: told
    any      soon, and `SPACING` after the last        as it was: told
    quiet    `recv` has returned the last one          due: a timer is set
    due      its thread waits for the next one         as it was: told, `SPACING` after the last
    quiet    soon but not yet, or later                due: a timer is set
    quiet    the way cannot take it in this thread     due: a timer is set
    due      soon but not yet, or later                due: they are told together
    due      the timer                                 quiet: told
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from ....transport.loop import Loop
from .arrivals import NOW, SOON, Urgency

SPACING = 0.02
"""Seconds after which the next news are told at once by whoever has them, and others by a timer. Nobody waits
for them: what frees much memory, or half of a window, is told at once."""


class AcknowledgementScheduler:
    """Tells a publisher in time and not too often; safe from any thread.

    Args:
        loop: for the timer.
        tell: tells what is new, or something anyway when its argument is True; False: not now.
    """

    def __init__(self, loop: Loop, tell: Callable[[bool], bool]) -> None:
        self._loop = loop
        self._tell = tell
        self._last = 0.0
        self._due = False

    def news(self, urgency: Urgency) -> None:
        """Something is done."""
        if urgency is NOW or (urgency is SOON and monotonic() - self._last >= SPACING):
            self.say()
        elif not self._due:
            self._later()

    def say(self, *, always: bool = False) -> None:
        """Tell what is new now, and ``always`` something."""
        self._last = monotonic()
        if not self._tell(always):
            self._later()

    def _later(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_later(SPACING, self._say_what_is_due)

    def _say_what_is_due(self) -> None:
        self._due = False
        self.say()
