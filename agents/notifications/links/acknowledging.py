"""AcknowledgementScheduler: when a publisher is told what its reader is done with.

::

    state    event                             next
    any      news that are to be told now      as it was: told
    quiet    other news                        due: a timer is set
    quiet    the way cannot take it now        due: a timer is set
    due      other news                        due: they are told together
    due      the timer                         quiet: told
"""

from __future__ import annotations

from collections.abc import Callable

from ....transport.loop import Loop

SPACING = 0.02
"""Seconds in which news that nobody waits for are gathered."""


class AcknowledgementScheduler:
    """Tells a publisher in time and not too often; safe from any thread.

    Args:
        loop: for the timer.
        tell: tells what is new, or something anyway when its argument is True; False: not now.
    """

    def __init__(self, loop: Loop, tell: Callable[[bool], bool]) -> None:
        self._loop = loop
        self._tell = tell
        self._due = False

    def news(self, urgent: bool) -> None:
        """Something is done."""
        if urgent:
            self.say()
        else:
            self._later()

    def say(self, *, always: bool = False) -> None:
        """Tell what is new now, and ``always`` something."""
        if not self._tell(always):
            self._later()

    def _later(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_later(SPACING, self._say_what_is_due)

    def _say_what_is_due(self) -> None:
        self._due = False
        self.say()
