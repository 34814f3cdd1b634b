"""Subscription: what user code holds.

What arrived over a link waits as an `Arrival`: it is decoded by whoever is the first of the process to
take it, and each subscription says when it is done with it, so that the publisher may go on::

    taken by                done when
    a callback              it returned, or raised
    recv, iteration         the copy was made
    recv_zero_copy          its context ended
    nobody                  dropped by the policy, or at `close`
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from ...delivery.cursor import Gap, gaps_of
from ...delivery.policies import UNREAD, Inbox, Policy
from ...delivery.throttle import Throttle
from ...protocol.errors import ProtocolError, Refused
from ...protocol.shown import printable
from ...transport.inherited import forked_since, forks
from ..notification import Callback, Notification
from .callbacks import Runs
from .keys import Keys, every
from .links import inside
from .links.arrivals import Arrival
from .metering import Arrivals
from .reading import Reading

logger = logging.getLogger("pzc.subscription")

CALLBACK_TIMEOUT = 5.0
"""Seconds that `Subscription.close` waits for a callback that is running."""


class Subscription(Reading):
    """Notifications of one topic, by callback or by `recv` and iteration.

    Always: ``received + dropped + throttled + ignored + pending = published since it began``. A loss on
    the way (``gaps``) and a loss by the policy are both in ``dropped``. Notifications of other keys do not
    count; those that the publisher kept for an ``initial`` one do.

    Attributes:
        topic: the topic, or ``*`` for all of the publisher.
        key: the key, or the set of keys, that it wants; None for all.
        policy: as given to `Agent.subscribe`.
        on_gap: called with each Gap; set it before notifications flow.
        on_lost: called once with the reason when the publisher is gone.
        transport: ``tcp``, which the broadcast plane is too, ``unix`` or ``inproc``.
        throttle: most notifications per second; None for all.
        arrivals: what has reached it.
        who: what publishers know its agent by.
        initial: whether it begins with what its publisher retains.
        type: that messages must have, as `advertise` says it; empty for any.
        restarted: its publisher was, which the next confirmation tells.
        ignores_local: whether what a publisher of this process publishes is left out.
        manual_ack: whether a message is done with only when `Notification.acknowledge` was called.
    """

    __slots__ = (  # a process may have 100 000
        "_callback", "_closed", "_errands", "_forks", "_gaps", "_inbox", "_mutex", "_on_close", "_pumping",
        "_running", "_silent_until", "_throttle", "_told", "_wakers", "arrivals", "callback_errors",
        "executor", "ignores_local", "initial", "key", "manual_ack", "on_gap", "on_lost", "proofs",
        "publisher", "raw", "restarted", "sink", "throttle", "topic", "transport", "type", "who",
    )  # fmt: skip

    def __init__(
        self,
        publisher: str,
        topic: str,
        callback: Callback | None,
        policy: Policy,
        key: Keys,
        executor: Runs,
        on_close: Callable[[Subscription], None],
        raw: bool = False,
        throttle: float | None = None,
    ) -> None:
        self.publisher = publisher
        self.topic = topic
        self.key = key
        self.raw = raw
        self.transport = "tcp"
        self.who = self.type = ""
        self.sink = None
        self.ignores_local = self.manual_ack = self.initial = False
        self._gaps: list[Gap] | None = None
        self.on_gap: Callable[[Gap], object] | None = None
        self.on_lost: Callable[[str], object] | None = None
        self.callback_errors = 0
        self._silent_until = 0.0
        self.throttle = throttle
        self._throttle = None if throttle is None else Throttle(throttle)
        self._inbox: Inbox[Arrival] = Inbox(policy)  # what it refuses is done with once no lock is held
        if policy.lossy:
            self._inbox.weigh(UNREAD)
        self.arrivals = Arrivals()
        self.proofs = 0
        self._callback = callback
        self.executor = executor
        self._on_close = on_close
        self._forks = forks()
        self.restarted = False
        self._mutex = threading.RLock()
        self._running: threading.RLock | None = None
        self._errands: deque[Callable[[], object]] | None = None
        self._told: deque[tuple[Callable[[], object], bool]] | None = None
        self._wakers: tuple[Callable[[], object], ...] = ()
        self._pumping = self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.received} received, {self.dropped} dropped"
        return f"<Subscription {self.topic} of {self.publisher}: {state}>"

    @property
    def policy(self) -> Policy:
        """The policy and its bound."""
        return self._inbox.policy

    @property
    def gaps(self) -> list[Gap]:
        """The last 1000 `Gap` s, oldest first."""
        return [] if self._gaps is None else self._gaps

    def _keep_gap(self, gap: Gap) -> None:
        gaps = self._gaps = self.gaps
        gaps.append(gap)
        del gaps[:-1000]
        if self.on_gap is not None:
            self._tell(self.on_gap, gap)

    @property
    def closed(self) -> bool:
        """True after `close` or the agent's stop."""
        return self._closed

    def admit(self, entries: Sequence[Arrival], size: int | None = None) -> Subscription | None:
        """Take several at once; never blocks, and calls nobody.

        Args:
            entries: of one topic.
            size: bytes of their contents, when that is known.

        Returns:
            Whose callback is to be called now, by `start`; None when that need not be seen to.
        """
        if self.ignores_local and self.publisher in inside.offered:
            return self.ignore(entries)
        throttled: Sequence[Arrival] = ()
        if self.key is not None or self._throttle is not None:
            (entries, throttled), size = self._wanted(entries), None
            if not (entries or throttled):
                return None
        with self._mutex:
            if throttled:
                self._inbox.refuse(throttled)
                self.arrivals.throttled += 0 if self._closed else len(throttled)
            if entries:
                self.arrivals.add(entries, size)
            if self._closed:
                self._inbox.refuse(entries)
            else:
                self._inbox.offer_all(entries, size)
            wakers = self._wakers
            if wakers:
                self._wakers = ()
            start = self._callback is not None and not self._pumping and not self._closed
            self._pumping = self._pumping or start
        if self._inbox.omitted:
            self._tell_omitted()
        if self._inbox.refused:
            self._end_refused()
        for wake in wakers:
            wake()
        return self if start else None

    def ignore(self, entries: Sequence[Arrival]) -> None:
        """Count, and be done with them."""
        with self._mutex:
            self.arrivals.ignored += len(entries)
        for entry in entries:
            entry.consumed()

    def _wanted(self, entries: Sequence[Arrival]) -> tuple[list[Arrival], list[Arrival]]:
        """Those of its keys: which its throttle admits, and which it does not; all others are done."""
        found: list[Arrival] = []
        throttled: list[Arrival] = []
        keys, throttle = every(self.key), self._throttle
        for entry in entries:
            if self.key is not None and entry.key not in keys:
                entry.consumed()
            else:
                (found if throttle is None or throttle.admit(time.monotonic()) else throttled).append(entry)
        return found, throttled

    def _tell_omitted(self) -> None:
        """Tell which ones the policy left out."""
        with self._mutex:
            omitted, self._inbox.omitted = self._inbox.omitted or (), None
            for gap in gaps_of((each.epoch, each.sequence) for each in omitted):
                self._keep_gap(gap)

    def _end_refused(self) -> None:
        refused = self._inbox.refused
        while refused:
            with suppress(IndexError):  # another thread was quicker
                refused.pop().consumed()

    def report_gap(self, gap: Gap) -> None:
        """Count a loss and tell the user; any thread."""
        with self._mutex:
            if self._closed:
                return
            self._inbox.lose(gap.count)
            self._keep_gap(gap)

    def report_lost(self, reason: str, *, ends: bool = False) -> None:
        """Tell the user, once, that the publisher is gone; any thread.

        Args:
            reason: for the user.
            ends: the subscription ends with it.
        """
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            self._tell(on_lost, reason, last=ends)
        if ends:
            self.end()
            self._on_close(self)

    def refuse(self, error: BaseException) -> None:
        """It cannot follow its publisher: it ends, and says why; any thread."""
        if isinstance(error, Refused):
            logger.warning("the subscription to %r has ended: %s", self.topic, error)
            self.refusal = error
        self.report_lost(str(error), ends=True)

    def _opened(self, entry: Arrival) -> Notification | None:
        """The notification, decoded now if nobody did; None, and counted as a gap, when it cannot be."""
        try:
            return entry.open()
        except ProtocolError as exc:
            logger.warning("%s number %s is lost here: %s", printable(entry.topic), entry.sequence, exc)
        with self._mutex:
            self._inbox.spoil()
        self.report_gap(Gap(entry.epoch, entry.sequence, entry.sequence))
        return None

    def end(self) -> None:
        """Take nothing more and wake whoever waits; does not wait for a running callback."""
        with self._mutex:
            self._closed = True
            self._inbox.clear()
            wakers, self._wakers = self._wakers, ()
        self._end_refused()
        for wake in wakers:
            wake()

    def close(self) -> None:
        """End the subscription; once this returned, no callback starts. Unread ones are dropped.

        Waits for a callback that is running, at most `CALLBACK_TIMEOUT`, unless it is called there. In
        a forked child nothing is done to what is the parent's.
        """
        if forked_since(self._forks):
            return
        if not self._closed:
            self.end()
            self._on_close(self)
        running = self._running
        if running is not None and running.acquire(timeout=CALLBACK_TIMEOUT):
            running.release()
