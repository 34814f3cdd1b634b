"""Places: the subscriptions of this process on one link.

::

    state     event                             next      what happens
    held      arrival, or a loss is told        held      kept, up to `early_notifications`; the rest is lost
    held      the publisher confirmed           open      what it numbers later is delivered
    open      arrival                           open      losses before it are told, then it is delivered
    open      another publisher is in its place held      one restart gap, once that one has confirmed
    open      the publisher closed the link     held      once confirmed, what it numbered meanwhile is lost
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from ....delivery.cursor import Cursor, Cursors, Gap
from ....protocol import limits
from ....protocol.bundle import Last
from ..filters import ANY
from ..keys import every
from ..rounds import rounds
from ..subscription import Subscription
from .arrivals import Arrival, Together


class Place:
    """One subscription on one link; safe from any thread, arrivals come from one at a time.

    Args:
        subscription: who gets the arrivals.

    Attributes:
        confirmed: done once the publisher has confirmed, or refused.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.confirmed: Future[None] = Future()
        self._lock = threading.Lock()
        self._held: list[Together | Last] | None = []
        self._open = False  # nothing is held any more, nor being handed on
        self._left_out: dict[str, Last] = {}
        self._cursors = Cursors(None if subscription.topic == ANY else subscription.topic)

    @property
    def wish(self) -> list[Any]:
        """What the publisher is asked for, and by whom; the throttle the subscription judges itself."""
        policy, who = self.subscription.policy, self.subscription.who or None
        topic = self.subscription.topic
        key = self.subscription.key
        keys = None if key is None else sorted(every(key))
        return [topic, keys, policy.name, policy.bound, policy.timeout, policy.on_timeout, who]

    @property
    def held(self) -> bool:
        """True until the publisher has confirmed."""
        return self._held is not None

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher has confirmed: each topic's last number that is not part of this.

        A topic that is not named had none.
        """
        with self._lock:
            held, self._held = self._held, None
            if held is None:
                return
            if self.subscription.held:  # it came from the broadcast plane
                self.subscription.begin(epoch, {})
            for _, gap in self._cursors.begin(epoch, lasts):
                self._report(gap)
            left_out, self._left_out = self._left_out, {}
            ready = [self._admit(each) for each in (*held, *left_out.values())]
            self._open = True
        for each in rounds(called for called in ready if called is not None):
            each.start()
        if not self.confirmed.done():
            self.confirmed.set_result(None)

    def fail(self, error: BaseException) -> None:
        """The publisher refused."""
        if not self.confirmed.done():
            self.confirmed.set_exception(error.with_traceback(None))  # else the two may hold each other

    def restart(self, publisher: str) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        self.subscription.publisher = publisher
        with self._lock:
            self._open = False
            self._cursors.restart()
            held, self._held = self._held or [], []
            self._left_out.clear()
        for each in held:
            for arrival in each.arrivals if isinstance(each, Together) else ():
                arrival.consumed()

    def forget(self) -> None:
        """The publisher has closed the link, and knows nothing of it any more."""
        with self._lock:
            self._open = False
            self._held = self._held or []

    def take(self, come: Together | Last) -> Subscription | None:
        """Take arrivals that are wanted, or the end of a topic; returns as `Subscription.admit`."""
        return None if not self._open and self._keep(come) else self._admit(come)

    def _keep(self, come: Together | Last) -> bool:
        """Keep it until the publisher has confirmed; False when it has."""
        refused = list[Arrival]()
        with self._lock:
            held, most = self._held, limits.current.early_notifications
            if held is None:
                return False
            for each in [come] if isinstance(come, Last) else come.each():
                if len(held) < most:
                    held.append(each)
                else:
                    refused += self._leave_out(each)
        for arrival in refused:
            arrival.consumed()
        return True

    def _leave_out(self, early: Together | Last) -> list[Arrival]:
        """There is no room for one more; returns what is to be done with."""
        left_out, topic = self._left_out, early.topic
        before = left_out[topic].lost if topic in left_out else 0
        if isinstance(early, Last):
            left_out[topic] = Last(topic, early.number, before + early.lost)
            return []
        [arrival] = early.arrivals
        lost = before + early.lost.get(arrival.sequence, 0) + 1
        left_out[topic] = Last(topic, arrival.sequence, lost)
        return [arrival]

    def _admit(self, come: Together | Last) -> Subscription | None:
        cursor = self._cursors.at(come.topic)
        if isinstance(come, Last):
            self._report(cursor.lost(come.lost, come.number))
            return None
        arrivals = come.arrivals
        if come.lost or not cursor.new(arrivals[0].sequence, arrivals[-1].sequence):
            return self._admit_each(cursor, come)
        return self.subscription.admit(arrivals, come.size)

    def _admit_each(self, cursor: Cursor, together: Together) -> Subscription | None:
        """Those that are not part of the beginning, each loss told before what came after it."""
        subscription, ready = self.subscription, list[Arrival]()
        called: Subscription | None = None
        for arrival in together.arrivals:
            number = arrival.sequence
            lost = together.lost.get(number, 0)
            gap = cursor.lost(lost, number - 1) if lost else None
            if gap is not None and ready:  # first
                called = subscription.admit(ready) or called
                ready = []
            self._report(gap)
            if cursor.new(number):
                ready.append(arrival)
            else:
                arrival.consumed()
        return (subscription.admit(ready) if ready else None) or called

    def _report(self, gap: Gap | None) -> None:
        if gap is not None:
            self.subscription.report_gap(gap)
