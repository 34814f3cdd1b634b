"""Leading: a thread that waits in `Subscription.recv` receives for its link, without a change of thread.

::

    state     event                                           next
    own       a thread would like to lead                     own, asked
    asked     something was received by the link's thread     lent: that stands by
    lent      a thread that waits for a notification leads    lent: it receives until it has one
    lent      nobody has led for `lead_absence`               own: the link's thread goes on
    lent      there are errands, or the way is over           own: they are for the link's thread

Whoever leads has no errands: a link lends its socket only for its one subscription, of the policy ``block``,
that nobody calls back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from ....protocol import limits

_LONG = 0.1  # seconds of one lead after which the thread that stands by sleeps until that ends


class Leading:
    """Who receives; `stand_by` and `go_on` are for the link's thread.

    Args:
        over: set when the link is over.
        tell: tells the publisher what is done, soon.
        offer: wakes a thread that would lead.
    """

    def __init__(
        self, over: threading.Event, tell: Callable[[], object], offer: Callable[[], object]
    ) -> None:
        self._over = over
        self._tell = tell
        self._offer = offer
        self._receiving = threading.Lock()  # of whoever leads
        self._wake = threading.Event()
        self._asked = self._lent = self._leads = self._sleeps = self._back = False
        self._owes = False
        self._changed = 0.0

    def puts_off(self) -> bool:
        """True when the publisher is told later: before the next wait or after `lead_absence`."""
        self._owes = True  # first, because the link's thread looks at it last
        return self._lent

    def lead(self, receive: Callable[[], bool]) -> None:
        """Receive in this thread, if that may be: call ``receive`` as long as it returns True.

        A ``receive`` that raises ends it, too. To be called with no lock.
        """
        if not self._lent:
            self._asked = True
            return
        if not self._receiving.acquire(blocking=False):
            return
        try:
            self._changed, self._leads = monotonic(), True
            self._pay()
            while self._lent and not self._back and receive():
                pass
        finally:
            self._changed, self._leads = monotonic(), False
            self._receiving.release()
            if self._sleeps or self._back:
                self._wake.set()
        self._offer()

    def give_back(self) -> None:
        """Something is to be done by the link's thread; in the thread that leads."""
        self._back = True

    def stand_by(self) -> None:
        """If somebody asked to lead, wait until the link's thread is needed again."""
        if not self._asked:
            return
        self._asked = self._back = False
        self._changed, self._lent = monotonic(), True
        self._offer()
        while not self._is_needed():
            self._lent = True  # somebody began to lead at the last moment
        self._pay()

    def _is_needed(self) -> bool:
        """Wait until the link's thread is needed; False when somebody leads all the same."""
        while not (self._back or self._over.is_set()):
            self._wake.wait(limits.current.lead_absence)
            self._wake.clear()
            since = monotonic() - self._changed
            if self._leads:
                if since > _LONG:
                    self._sleep()
            elif since >= limits.current.lead_absence:
                break
        self._lent = False
        ends = self._back or self._over.is_set()
        # Whoever leads then ends its turn at once: it was told so, or the way was closed.
        if not self._receiving.acquire(timeout=limits.current.lead_look if ends else 0):
            return ends
        self._receiving.release()
        return True

    def _pay(self) -> None:
        if self._owes:
            self._owes = False
            self._tell()

    def _sleep(self) -> None:
        self._sleeps = True
        while self._leads and not (self._back or self._over.is_set()):
            self._wake.wait(limits.current.lead_look)
            self._wake.clear()
        self._sleeps = False
