"""Shares: what one subscription gets of one publisher, whichever way it comes.

::

    state   event                             next    what happens
    held    arrival, or a loss is told        held    kept; of broadcasts `_EARLY`, others are lost
    held    the publisher confirmed           open    what it numbers later is delivered
    open    arrival                           open    losses before it are told, then it is delivered
    open    a loss is told                    open    a gap; what was broadcast is lost where its numbers miss
                                                      any
    any     another publisher is in its place held    one restart gap, once that one has confirmed
    any     the publisher forgot this         held    once confirmed, what it numbered meanwhile is lost
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import nullcontext, suppress

from ...delivery.cursor import Cursor, Cursors, Gap
from ...protocol.errors import SubscriptionClosed
from ...protocol.link_messages import MAX_ITEMS, Loss
from ...transport.peer import Peer
from ..notification import Notification
from .callbacks import start
from .columns import Missed
from .filters import ANY
from .links.arrivals import Arrival, arrival_of
from .links.together import LeftOut, Together
from .subscription import Subscription

_EARLY = 10_000
"""What may be heard of a broadcast before the publisher's confirmation."""


logger = logging.getLogger("pzc.subscription")

_NO_LOCK = nullcontext()

Come = Together | LeftOut | Loss
"""What comes for a share: arrivals of one topic, how many were lost up to a number, or the sum of what the
publisher left out."""


class Share:
    """One subscription at one publisher; arrivals come from one thread at a time.

    Args:
        subscription: who gets the arrivals.
        confirmed: to be done once the publisher has confirmed, or refused.
        lock: lets any thread say the rest; None when that is said by the thread of the arrivals only.

    Attributes:
        held: until the publisher has confirmed, and what came before is handed on.
    """

    __slots__ = (
        "_confirmed", "_cursors", "_early", "_lock", "_sums", "held", "subscription",
    )  # fmt: skip

    most_early = sys.maxsize
    """What may come before the confirmation; over a link its window is the bound."""

    def __init__(
        self,
        subscription: Subscription,
        confirmed: Future[None] | None = None,
        lock: threading.Lock | None = None,
    ) -> None:
        self.subscription = subscription
        self.held = True
        self._confirmed = confirmed
        self._lock = lock or _NO_LOCK
        self._early: list[Come] | None = None
        self._sums: dict[str, Loss] | None = None
        topic = None if subscription.topic == ANY else subscription.topic
        self._cursors = Cursors(topic, subscription.restarted)

    def begin(
        self,
        epoch: int,
        lasts: Mapping[str, int],
        retained: Iterable[Notification | Gap] = (),
    ) -> None:
        """The publisher has confirmed.

        Args:
            epoch: of the publisher.
            lasts: each topic's last number that is not part of this; 0 without one.
            retained: of what was numbered before, which comes first; gaps for what is lost of it.
        """
        with self._lock:
            if not self.held:
                return
            self.subscription.restarted = False
            for topic, gap in self._cursors.begin(epoch, lasts):
                self._report(topic or ANY, gap, "restarted" if gap.restarted else "forgotten")
            called = [self._retain(each) for each in retained]
            called += [self.admit(each) for each in self._take_early()]
            self.held = False
        start(called)
        confirmed, self._confirmed = self._confirmed, None
        if confirmed is not None:
            with suppress(InvalidStateError):  # it was closed at this moment
                confirmed.set_result(None)

    def _retain(self, come: Notification | Gap) -> Subscription | None:
        if not isinstance(come, Gap):
            return self.subscription.admit((arrival_of(come),))
        self.subscription.report_gap(come)
        return None

    def fail(self, error: BaseException) -> bool:
        """The publisher refused, or nobody waits for it any more; whether somebody waited."""
        confirmed, self._confirmed = self._confirmed, None
        if confirmed is not None:
            with suppress(InvalidStateError):  # it was confirmed at this moment
                confirmed.set_exception(error.with_traceback(None))  # else the two may hold each other
        return confirmed is not None

    def refuse(self, error: BaseException) -> None:
        """The publisher will not have it, at once or any more."""
        if not self.fail(error):
            self.subscription.refuse(error)

    def restart(self, publisher: str) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        self.forget()
        self.subscription.publisher = publisher
        self._cursors.restart()

    def forget(self) -> None:
        """The publisher knows nothing of this any more."""
        with self._lock:
            self.held = True
            early = self._take_early()
        self._miss_early(early)

    def leave(self) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self.held = False
            early = self._take_early()
        _end(early)
        self.fail(SubscriptionClosed(f"the subscription to {self.subscription.topic} ended unconfirmed"))

    def _miss_early(self, early: list[Come]) -> None:
        """What came is not confirmed any more."""
        _end(early)

    def _take_early(self) -> list[Come]:
        early = [*(self._early or ()), *(self._sums or {}).values()]
        self._early = self._sums = None
        return early

    def keep(self, come: Come) -> bool:
        """Keep it until the publisher has confirmed; False when it has."""
        with self._lock:
            if not self.held:
                return False
            if isinstance(come, Loss):
                self._sums = {**(self._sums or {}), come.topic: come}
                return True
            early = self._early = self._early or []
            if fits := len(early) < self.most_early:
                early.append(come)
        if not fits:
            _end((come,))
        return True

    def admit(self, come: Come) -> Subscription | None:
        """Take what came, once it is confirmed; returns as `Subscription.admit`."""
        cursor = self._cursors.only or self._cursors.at(come.topic)
        if not isinstance(come, Together):
            if isinstance(come, Loss):
                self._report_gap(come.topic, cursor.told(come.total, come.at))
            else:
                self._tell(cursor, come)
            return None
        arrivals = come.arrivals
        if not cursor.new(arrivals[0].sequence, arrivals[-1].sequence):
            return self._admit_each(cursor, come)
        return self.subscription.admit(arrivals, come.size)

    def _admit_each(self, cursor: Cursor, together: Together) -> Subscription | None:
        """Those that are not part of the beginning."""
        ready = list[Arrival]()
        for arrival in together.arrivals:
            if cursor.new(arrival.sequence):
                ready.append(arrival)
            else:
                arrival.consumed()
        return self.subscription.admit(ready) if ready else None

    def _tell(self, cursor: Cursor, last: LeftOut) -> None:
        self._report_gap(last.topic, cursor.lost(last.lost, last.number))

    def _report_gap(self, topic: str, gap: Gap | None) -> None:
        if gap is not None:
            self._report(topic, gap, "evicted")

    def _report(self, topic: str, gap: Gap, reason: str) -> None:
        subscription = self.subscription
        subscription.report_gap(gap)
        if subscription.sink is not None:
            subscription.sink.miss(Missed(subscription.publisher, topic, gap, reason))


class BroadcastShare(Share):
    """A share of what a publisher broadcasts; all of it in the receiver's thread.

    Args:
        subscription: who gets the arrivals.
        peer: the publisher.
        mark: tells the publisher that the filters have come.

    Attributes:
        peer: the publisher whose filters are set.
        mark: as given.
        lost: numbers that were missing before what was taken last.
        old: those of them that had come before.
    """

    __slots__ = ("lost", "mark", "old", "peer")

    most_early = _EARLY
    """What more comes is missing in the numbers then."""

    def __init__(self, subscription: Subscription, peer: Peer, mark: str) -> None:
        super().__init__(subscription)
        self.peer = peer
        self.mark = mark
        self.lost = self.old = 0

    def restart(self, publisher: str) -> None:
        """See `Share.restart`; a share of another kind may take the place of this one."""
        super().restart(publisher)
        self.subscription.restarted = self._cursors.restarted

    def forget(self) -> None:
        """See `Share.forget`."""
        super().forget()
        self.lost = self.old = 0

    def tail(self, topic: str, epoch: int, number: int) -> None:
        """The publisher says, behind all that it sent, that this is a topic's last number."""
        self.lost = 0
        if not self.held:
            self._miss(topic, self._cursors.at(topic).tail(epoch, number))

    def _miss(self, topic: str, gap: Gap | None) -> None:
        if gap is not None:
            self.lost += gap.count
            self._report(topic, gap, "lost")

    def admit(self, come: Come) -> Subscription | None:
        """See `Share.admit`."""
        self.lost = self.old = 0
        return self._admit(come)

    def _admit(self, come: Come) -> Subscription | None:
        if not isinstance(come, Together):
            return super().admit(come)
        arrivals, topic = come.arrivals, come.topic
        first, number = arrivals[0], arrivals[0].sequence
        if number:  # else of a publisher that numbers nothing
            new, gap = self._cursors.at(topic).observe(first.epoch, number, arrivals[-1].sequence)
            self._miss(topic, gap)
            if not new and len(arrivals) > 1:
                ready = [self._admit(each) for each in come.each()]
                return next((each for each in ready if each is not None), None)
            if not new:
                self.old += 1
                return None
        return self.subscription.admit(arrivals, come.size)

    def _tell(self, cursor: Cursor, last: LeftOut) -> None:
        """It came, and cannot be used; what is missing before it is lost as well."""
        epoch, number = self.peer.epoch, last.number
        self._miss(last.topic, cursor.tail(epoch, number) if number else Gap(epoch, 0, 0))


def room(shares: Iterable[Share]) -> int:
    """How many arrivals the smallest inbox takes at once."""
    policies = [share.subscription.policy for share in shares]
    return min([policy.bound for policy in policies if policy.lossy], default=MAX_ITEMS)


def hand_on(shares: Iterable[Share], come: Come) -> list[Subscription]:
    """Hand what came to all who want it, before any callback; whose callbacks are to be called then."""
    ready: list[Subscription] = []
    for share in shares:
        try:
            called = None if share.held and share.keep(come) else share.admit(come)
        except Exception:
            logger.exception("%s could not be handed on to one subscription", come.topic)
        else:
            if called is not None:
                ready.append(called)
    return ready


def _end(early: Iterable[Come]) -> None:
    """Nobody gets it."""
    for come in early:
        for arrival in come.arrivals if isinstance(come, Together) else ():
            arrival.consumed()
