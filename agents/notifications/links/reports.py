"""Reports: what a link tells its publisher: what it has, what it is done with, and how far it takes more.

When it is told::

    state    event                             next
    any      news that are to be told now      as it was: told
    quiet    other news                        due: a timer is set
    quiet    the way cannot take it now        due: a timer is set
    due      other news                        due: they are told together
    due      the timer                         quiet: told
"""

from __future__ import annotations

from collections.abc import Callable

from ....delivery import receipts
from ....protocol import limits
from ....protocol.link_messages import Report
from ....transport.loop import Loop
from .arrivals import HeldArrivals
from .roster import Roster

SPACING = 0.02
"""Seconds in which news that nobody waits for are gathered."""

LAST_WORD = 0.001
"""Seconds within which a publisher answers the last report of a mailbox that is left as it is."""


class Reports:
    """Those of one link; safe from any thread.

    Args:
        link: its id.
        arrivals: what of it is not done.
        roster: the subscriptions.
        mailbox: its name; None for a link that reads none.
    """

    def __init__(self, link: str, arrivals: HeldArrivals, roster: Roster, mailbox: str | None) -> None:
        self._link = link
        self._arrivals = arrivals
        self._roster = roster
        self._keeps = mailbox is not None
        self._last: receipts.Report | None = None
        self._paused = False  # as it was told

    def park(self) -> None:
        """What is done with from now on is not told: the mailbox stays as it is."""
        self._last = self._arrivals.report(always=True)

    def next(self, *, always: bool) -> Report | None:
        """What nobody answers; None when nothing is new, unless ``always``."""
        always = always or (self._keeps and self._roster.paused is not self._paused)
        news = None if self._last is not None else self._arrivals.report(always=always)
        return None if news is None else self._report(news)

    def poll(self, again: bool) -> Report:
        """What is answered by what comes next; ``again``: the answer before may be lost."""
        if again:
            self._arrivals.repeat()
        told = self._last or self._arrivals.report(always=True) or receipts.Report(0, 0, [])
        return self._report(told, limits.current.mail_hold)

    def last(self) -> Report | None:
        """The last word to a mailbox that is parked; None for any other."""
        return None if self._last is None else self._report(self._last, LAST_WORD)

    def _report(self, told: receipts.Report, hold: float = 0.0) -> Report:
        room = 0
        self._paused = self._keeps and self._roster.paused
        if self._keeps and self._last is None and not self._paused:
            room = told.received + max(0, self._roster.bound - len(self._arrivals))
        return Report(self._link, *told, hold, room)


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
