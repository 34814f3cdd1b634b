"""Subscription: what user code holds, and the Notification it gets."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..delivery.policies import Inbox, Policy
from ..delivery.sequences import Gap, Sequence
from ..protocol.errors import AgentClosed, ReceiveTimeout, SubscriptionClosed
from .dispatch import Executor

logger = logging.getLogger("pzc.subscription")

Callback = Callable[["Notification"], object]

MAX_EARLY = 10_000
"""Notifications that may arrive before the publisher's confirmation."""

CALLBACK_TIMEOUT = 5.0
"""Seconds that `Subscription.close` waits for a callback that is running."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One message of a publisher.

    Attributes:
        publisher: agent id, or the REP endpoint of an original Pizco.
        name: as the publisher calls itself, possibly empty.
        topic: within the publisher.
        key: what it is about within the topic, mostly empty.
        sequence: the topic's number, from 1; 0 when the dialect has none.
        epoch: the publisher's start; 0 when the dialect has none.
        sent_at: Unix seconds by the publisher's clock; ``received_at`` when unknown.
        received_at: Unix seconds by this machine's clock.
        content: decoded and shared by all subscriptions of the process: do not change it. None
            for raw subscriptions, which do not decode.
        key_id: key that signed it, empty when unsigned.
        frames: the five frames as they came, for raw subscriptions only.
    """

    publisher: str
    name: str
    topic: str
    key: str
    sequence: int
    epoch: int
    sent_at: float
    received_at: float
    content: Any
    key_id: str = ""
    frames: tuple[bytes, ...] = field(default=(), repr=False)


class Subscription:
    """Notifications of one topic, by callback or by `recv` and iteration.

    Always: ``received + dropped + pending = published since the subscription began``. A loss on
    the way (``gaps``) and a loss by the policy are both in ``dropped``.

    Attributes:
        topic: the topic, or ``*`` for all of the publisher.
        policy: as given to `Agent.subscribe`.
        gaps: the last 1000 `Gap` s, oldest first.
        on_gap: called with each Gap; set it before notifications flow.
        on_lost: called once with the reason when the publisher is gone.
        transport: ``tcp``: the broadcast plane.
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
        self._inbox: Inbox[Notification] = Inbox(policy)
        self._callback = callback
        self._executor = executor
        self._on_close = on_close
        self._sequences: dict[str, Sequence] = {}
        self._begun: tuple[int, Mapping[str, int]] | None = None
        self._early: list[Notification] | None = None
        self._restarted: int | None = None
        self._changed = threading.Condition()
        self._running = threading.RLock()
        self._wakers: list[Callable[[], object]] = []
        self._pumping = False
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
        return self._early is not None

    def hold(self) -> None:
        """Keep what arrives, at most `MAX_EARLY`, until `begin` tells what counts; I/O thread."""
        self._early = []

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher has confirmed: each topic's last number that is not part of this; I/O thread.

        A topic that is not named had none.
        """
        self._begun = epoch, lasts
        early, self._early = self._early or [], None
        if self._restarted is not None:
            self.report_gap(Gap(self._restarted, 0, 0, restarted=True))
            self._restarted = None
        for notification in early:
            if self.observe(notification.topic, notification.epoch, notification.sequence)[0]:
                self.deliver(notification)

    def observe(self, topic: str, epoch: int, number: int) -> tuple[bool, Gap | None]:
        """A verified notification arrived; I/O thread.

        Returns:
            Whether it is new here, and the gap that it revealed and that was reported.
        """
        if not number or self._early is not None:
            return True, None
        first_epoch, lasts = self._begun or (None, {})
        before = lasts.get(topic, 0) if first_epoch == epoch else None
        if before is not None and number <= before:
            return False, None
        sequence = self._sequences.get(topic)
        if sequence is None:
            sequence = self._sequences[topic] = Sequence()
            if before is not None:
                sequence.begin(epoch, before)
        new, gap = sequence.observe(epoch, number)
        if gap is not None:
            self.report_gap(gap)
        return new, gap

    def restart(self, publisher: str, epoch: int) -> None:
        """Another agent has taken the publisher's place, numbering anew; I/O thread.

        The gap is reported when that one has confirmed: from then on nothing is lost unseen.
        """
        self.publisher = publisher
        self._sequences.clear()
        self._begun = None
        if self._early is None or self._restarted is not None:
            self._restarted = epoch
        self.hold()

    def deliver(self, notification: Notification) -> None:
        """Take a notification from the I/O thread; never blocks."""
        if self._early is not None:
            if len(self._early) < MAX_EARLY:  # the rest is missed, and counted, by its numbers
                self._early.append(notification)
            return
        if self.key is not None and notification.key != self.key:
            return
        with self._changed:
            if self._closed:
                return
            self._inbox.offer(notification)
            self._changed.notify()
            wakers, self._wakers = self._wakers, []
            start = self._callback is not None and not self._pumping
            self._pumping = self._pumping or start
        for wake in wakers:
            wake()
        if start and not self._submit(self._pump):
            self._pumping = False

    def report_gap(self, gap: Gap) -> None:
        """Count a loss and tell the user; called from the I/O thread."""
        with self._changed:
            if self._closed or self._early is not None:
                return
            self._inbox.lose(gap.count)
            self.gaps.append(gap)
            del self.gaps[:-1000]
        if self.on_gap is not None:
            self._submit(partial(self._tell, self.on_gap, gap))

    def report_lost(self, reason: str) -> None:
        """Tell the user, once, that the publisher is gone; called from the I/O thread."""
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            self._submit(partial(self._tell, on_lost, reason))

    def _submit(self, function: Callable[[], None]) -> bool:
        try:
            return self._executor.submit(function)
        except AgentClosed:
            return False

    def _tell(self, function: Callable[[Any], object], argument: object) -> None:
        with self._running:
            if not self._closed:
                self._call(function, argument)

    def _pump(self) -> None:
        while True:
            with self._running:
                with self._changed:
                    if self._closed or not len(self._inbox):
                        self._pumping = False
                        return
                    notification = self._inbox.take()
                if self._callback is not None:
                    self._call(self._callback, notification)
            try:
                if self._executor.submit(self._pump):
                    return
            except AgentClosed:
                return

    def _call(self, function: Callable[[Any], object], argument: object) -> None:
        try:
            function(argument)
        except BaseException:  # even SystemExit may end one callback only
            self.callback_errors += 1
            logger.exception("callback of topic %s failed", self.topic)

    def recv(self, timeout: float | None = None) -> Notification:
        """The next notification, with a content of its own that may be changed.

        Args:
            timeout: seconds; None waits until the subscription ends.

        Raises:
            ReceiveTimeout: when none came in time.
            SubscriptionClosed: when the subscription has ended.
        """
        return _own(self._take(timeout))

    @contextmanager
    def recv_zero_copy(self, timeout: float | None = None) -> Iterator[Notification]:
        """The next notification with the shared content, read-only by agreement; errors as `recv`."""
        yield self._take(timeout)

    def _take(self, timeout: float | None) -> Notification:
        with self._changed:
            ready = self._changed.wait_for(lambda: len(self._inbox) or self._closed, timeout)
            if len(self._inbox):
                return self._inbox.take()
            if not ready:
                raise ReceiveTimeout(f"no notification of {self.topic} within {timeout:g} s")
        raise SubscriptionClosed(f"the subscription to {self.topic} has ended")

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
            with self._changed:
                if len(self._inbox):
                    return _own(self._inbox.take())
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


def _own(notification: Notification) -> Notification:
    return replace(notification, content=copy.deepcopy(notification.content))


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the reader's event loop may be gone by now
        loop.call_soon_threadsafe(arrived.set)
