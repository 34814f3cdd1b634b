"""Reading: how user code takes notifications out of a subscription, in a thread or in an event loop."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Self

from ...delivery.policies import Inbox
from ...protocol.errors import ReceiveTimeout, SubscriptionClosed
from .entries import Entry, done, is_leased, notification_of, own_of
from .metering import Arrivals
from .notification import Notification, let_go


class Reading(ABC):
    """The reading side of a `Subscription`, which makes ``_inbox`` and ``_changed``."""

    topic: str
    arrivals: Arrivals
    _inbox: Inbox[Entry]
    _changed: threading.Condition
    _wakers: list[Callable[[], object]]
    _reading: bool
    _closed: bool

    @property
    def received(self) -> int:
        """Notifications handed to user code."""
        return self._inbox.received

    @property
    def dropped(self) -> int:
        """Notifications lost by the policy, on the way, or at `close`."""
        return self._inbox.dropped

    @property
    def ignored(self) -> int:
        """Notifications of this process that were left out because of ``ignore_local``."""
        return self.arrivals.ignored

    @property
    def throttled(self) -> int:
        """Notifications that its throttle left out."""
        return self.arrivals.throttled

    @property
    def pending(self) -> int:
        """Notifications waiting for user code."""
        return len(self._inbox)

    @abstractmethod
    def _opened(self, entry: Entry) -> Notification | None:
        """The notification, decoded now if nobody did; None, and counted as a gap, when it cannot be."""

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

    def __iter__(self) -> Self:
        """The subscription, an iterator over its notifications as `recv` gives them."""
        return self

    def __next__(self) -> Notification:
        """The next notification; waits for it. Ends when the subscription ends."""
        try:
            return self.recv()
        except SubscriptionClosed:
            raise StopIteration from None

    def __aiter__(self) -> Self:
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


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the reader's event loop may be gone by now
        loop.call_soon_threadsafe(arrived.set)
