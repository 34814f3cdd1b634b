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

import asyncio
import copy
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from ..delivery.policies import Inbox, Policy
from ..delivery.sequences import Gap
from ..delivery.throttle import Throttle
from ..protocol.errors import AgentClosed, ProtocolError, ReceiveTimeout, SubscriptionClosed
from .dispatch import Executor
from .entries import Entry, done, is_leased, notification_of, own_of, wanted
from .execution import PROOFS, QUICK
from .following import Following
from .notification import Callback, Notification, let_go

logger = logging.getLogger("pzc.subscription")

CALLBACK_TIMEOUT = 5.0
"""Seconds that `Subscription.close` waits for a callback that is running."""


class Subscription:
    """Notifications of one topic, by callback or by `recv` and iteration.

    Always: ``received + dropped + pending = published since the subscription began``. A loss on
    the way (``gaps``) and a loss by the policy are both in ``dropped``. What a key or a throttle does not
    want does not count.

    Attributes:
        topic: the topic, or ``*`` for all of the publisher.
        policy: as given to `Agent.subscribe`.
        gaps: the last 1000 `Gap` s, oldest first.
        on_gap: called with each Gap; set it before notifications flow.
        on_lost: called once with the reason when the publisher is gone.
        transport: ``tcp``, which the broadcast plane is too, ``unix`` or ``inproc``.
        throttle: most notifications per second; None for all.
    """

    def __init__(
        self,
        publisher: str,
        topic: str,
        callback: Callback | None,
        policy: Policy,
        key: str | None,
        executor: Executor,
        on_close: Callable[[Subscription], None],
        raw: bool = False,
        throttle: float | None = None,
    ) -> None:
        self.publisher = publisher
        self.topic = topic
        self.key = key
        self.raw = raw
        self.transport = "tcp"
        self.gaps: list[Gap] = []
        self.on_gap: Callable[[Gap], object] | None = None
        self.on_lost: Callable[[str], object] | None = None
        self.callback_errors = 0
        self.throttle = throttle
        self._throttle = None if throttle is None else Throttle(throttle)
        self._refused: list[Entry] = []  # to be done with once no lock is held
        self._inbox: Inbox[Entry] = Inbox(policy, self._refused.append)
        self._proofs = 0
        self._callback = callback
        self._executor = executor
        self._on_close = on_close
        self._following = Following()
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._running = threading.RLock()
        self._wakers: list[Callable[[], object]] = []
        self._pumping = self._reading = False
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.received} received, {self.dropped} dropped"
        return f"<Subscription {self.topic} of {self.publisher}: {state}>"

    @property
    def policy(self) -> Policy:
        """The policy and its bound."""
        return self._inbox.policy

    @property
    def received(self) -> int:
        """Notifications handed to user code."""
        return self._inbox.received

    @property
    def dropped(self) -> int:
        """Notifications lost by the policy, on the way, or at `close`."""
        return self._inbox.dropped

    @property
    def pending(self) -> int:
        """Notifications waiting for user code."""
        return len(self._inbox)

    @property
    def closed(self) -> bool:
        """True after `close` or the agent's stop."""
        return self._closed

    @property
    def held(self) -> bool:
        """True until the publisher has confirmed."""
        return self._following.held

    def hold(self) -> None:
        """Keep what arrives until `begin` tells what counts; I/O thread."""
        self._following.hold()

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher has confirmed; as `Following.begin`; I/O thread."""
        gap, early = self._following.begin(epoch, lasts)
        if gap is not None:
            self.report_gap(gap)
        for notification in early:
            if self.observe(notification.topic, notification.epoch, notification.sequence)[0]:
                self.deliver(notification)

    def observe(self, topic: str, epoch: int, number: int, told: bool = False) -> tuple[bool, Gap | None]:
        """As `Following.observe`; the gap was reported then; I/O thread."""
        new, gap = self._following.observe(topic, epoch, number, told)
        if gap is not None:
            self.report_gap(gap)
        return new, gap

    def restart(self, publisher: str, epoch: int) -> None:
        """Another agent has taken the publisher's place, numbering anew; I/O thread.

        The gap is reported when that one has confirmed: from then on nothing is lost unseen.
        """
        self.publisher = publisher
        self._following.restart(epoch)

    def deliver(self, entry: Entry, here: bool = False) -> None:
        """Take a notification; never blocks.

        Args:
            entry: the notification.
            here: the callback may run in the calling thread, when it has been quick of late and its
                turn is now.
        """
        if not (isinstance(entry, Notification) and self._following.keep(entry)):
            self.deliver_all((entry,), here)

    def deliver_all(self, entries: Sequence[Entry], here: bool = False) -> None:
        """Take several at once, as `deliver` each."""
        if self.key is not None or self._throttle is not None:
            entries = wanted(entries, self.key, self._throttle)
        with self._mutex:
            offer = self._refused.append if self._closed else self._inbox.offer
            for entry in entries:
                offer(entry)
            if self._reading:
                self._changed.notify(len(entries))
            wakers, self._wakers = self._wakers, []
            start = self._callback is not None and not self._pumping and not self._closed
            self._pumping = self._pumping or start
        self._end_refused()
        for wake in wakers:
            wake()
        quick = here and self._proofs >= PROOFS
        if start and not (quick and self._executor.run_here(self._pump_here)):
            self._start()

    def _end_refused(self) -> None:
        while self._refused:
            with suppress(IndexError):  # another thread was quicker
                done(self._refused.pop())

    def report_gap(self, gap: Gap) -> None:
        """Count a loss and tell the user; called from the I/O thread."""
        with self._changed:
            if self._closed or self._following.held:
                return
            self._inbox.lose(gap.count)
            self.gaps.append(gap)
            del self.gaps[:-1000]
        if self.on_gap is not None:
            self._submit(partial(self._tell, self.on_gap, gap))

    def report_lost(self, reason: str, *, ends: bool = False) -> None:
        """Tell the user, once, that the publisher is gone; any thread.

        Args:
            reason: for the user.
            ends: the subscription ends with it.
        """
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            self._submit(partial(self._tell, on_lost, reason, last=ends))
        if ends:
            self.end()
            self._on_close(self)

    def _submit(self, function: Callable[[], None]) -> bool:
        try:
            return self._executor.submit(function)
        except AgentClosed:
            return False

    def _tell(self, function: Callable[[Any], object], argument: object, last: bool = False) -> None:
        with self._running:
            if last or not self._closed:
                self._call(function, argument)

    def _start(self) -> None:
        if not self._submit(self._pump):
            self._pumping = False

    def _pump_here(self) -> None:
        while self._call_next():
            if not self._proofs:
                self._start()
                return

    def _pump(self) -> None:
        while self._call_next():
            try:
                if self._executor.submit(self._pump):
                    return
            except AgentClosed:
                return

    def _call_next(self) -> bool:
        """False when nothing is pending: the next arrival starts the pump anew."""
        with self._running:
            with self._mutex:
                if self._closed or not len(self._inbox):
                    self._pumping = False
                    return False
                entry = self._inbox.take()
            notification = self._opened(entry)
            if notification is not None and self._callback is not None:
                started = time.monotonic()
                self._call(self._callback, notification)
                self._proofs = self._proofs + 1 if time.monotonic() - started < QUICK else 0
            del notification  # else it would be kept beyond its end
            done(entry)
            with self._changed:
                self._pumping = len(self._inbox) > 0
                return self._pumping

    def _call(self, function: Callable[[Any], object], argument: object) -> None:
        try:
            function(argument)
        except BaseException as error:  # even SystemExit may end one callback only
            self.callback_errors += 1
            logger.exception("callback of topic %s failed", self.topic)
            # Whoever keeps the log record would keep the content, and with it the publisher's memory.
            traceback.clear_frames(error.__traceback__)
        del argument

    def _opened(self, entry: Entry) -> Notification | None:
        """The notification, decoded now if nobody did; None, and counted as a gap, when it cannot be."""
        try:
            return notification_of(entry)
        except ProtocolError as exc:
            logger.warning("%s number %s is lost here: %s", entry.topic, entry.sequence, exc)
        with self._changed:
            self._inbox.spoil()
        self.report_gap(Gap(entry.epoch, entry.sequence, entry.sequence))
        return None

    def recv(self, timeout: float | None = None) -> Notification:
        """The next notification, with a content of its own that may be changed.

        Args:
            timeout: seconds; None waits until the subscription ends.

        Raises:
            ReceiveTimeout: when none came in time.
            SubscriptionClosed: when the subscription has ended.
        """
        return own_of(self._take(timeout))

    @contextmanager
    def recv_zero_copy(self, timeout: float | None = None) -> Iterator[Notification]:
        """The next notification with the shared content, read-only by agreement; errors as `recv`.

        A content in shared memory is let go of at the end: the notification has it no longer then. An
        array, or a slice, that is kept by itself stays true and keeps the publisher's memory in use.
        """
        entry = self._take(timeout)
        lent = copy.copy(notification_of(entry))
        try:
            yield lent
        finally:
            if is_leased(entry):
                let_go(lent)
            done(entry)

    def _take(self, timeout: float | None) -> Entry:
        """The next entry that could be opened."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            with self._changed:
                self._reading = True  # from now on: it is asked with the lock
                ready = self._changed.wait_for(lambda: len(self._inbox) or self._closed, left)
                if not len(self._inbox):
                    if not ready:
                        raise ReceiveTimeout(f"no notification of {self.topic} within {timeout:g} s")
                    raise SubscriptionClosed(f"the subscription to {self.topic} has ended")
                entry = self._inbox.take()
            if self._opened(entry) is not None:
                return entry
            done(entry)

    def __iter__(self) -> Subscription:
        """The subscription, an iterator over its notifications as `recv` gives them."""
        return self

    def __next__(self) -> Notification:
        """The next notification; waits for it. Ends when the subscription ends."""
        try:
            return self.recv()
        except SubscriptionClosed:
            raise StopIteration from None

    def __aiter__(self) -> Subscription:
        """As `__iter__`, without blocking the event loop."""
        return self

    async def __anext__(self) -> Notification:
        """The next notification; a cancelled wait loses none. Ends when the subscription ends."""
        loop = asyncio.get_running_loop()
        while True:
            arrived = asyncio.Event()
            waker = partial(_wake, loop, arrived)
            with suppress(ReceiveTimeout, SubscriptionClosed):
                return own_of(self._take(0))
            with self._changed:
                if len(self._inbox):
                    continue
                if self._closed:
                    raise StopAsyncIteration
                self._wakers.append(waker)
            try:
                await arrived.wait()
            finally:
                with self._changed:
                    if waker in self._wakers:
                        self._wakers.remove(waker)

    def end(self) -> None:
        """Take nothing more and wake whoever waits; does not wait for a running callback."""
        with self._changed:
            self._closed = True
            self._inbox.clear()
            self._changed.notify_all()
            wakers, self._wakers = self._wakers, []
        self._end_refused()
        for wake in wakers:
            wake()

    def close(self) -> None:
        """End the subscription; once this returned, no callback starts. Unread ones are dropped.

        Waits for a callback that is running, at most `CALLBACK_TIMEOUT`, unless it is called there.
        """
        if not self._closed:
            self.end()
            self._on_close(self)
        if not self._executor.in_thread() and self._running.acquire(timeout=CALLBACK_TIMEOUT):
            self._running.release()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the reader's event loop may be gone by now
        loop.call_soon_threadsafe(arrived.set)
