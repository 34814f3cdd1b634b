"""Reading: how user code takes notifications out of a subscription, in a thread or in an event loop."""

from __future__ import annotations

import copy
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Self

from ...protocol.errors import ConfigError, ReceiveTimeout, Refused, SubscriptionClosed
from ...protocol.lazily import Lazily
from ...transport.inherited import Stays, check_own
from ...transport.threads import SLICE
from ...transport.timers import checked_wait
from ..notification import Notification, let_go, own
from .callbacks import Called
from .columns import Sink
from .links.arrivals import Arrival
from .metering import Arrivals

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = Lazily("asyncio")


class Reading(Stays, Called):
    """The reading side of a `Subscription`.

    Attributes:
        refusal: why it could not follow its publisher, and has ended.
        sink: what takes in the place of its callback what comes out of a mailbox; None for nothing.
    """

    refusal: Refused | None = None
    sink: Sink | None = None
    arrivals: Arrivals
    _forks: int
    _wakers: tuple[Callable[[], object], ...]
    """Of those who wait; each is called once, without a lock, when something came or all is over."""

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

    def passed(self, number: int, size: int) -> None:
        """Its sink took notifications of so many bytes."""
        with self._mutex:
            self._inbox.received += number
            self.arrivals.meter.add(time.monotonic(), number, size)

    def recv(self, timeout: float | None = None) -> Notification:
        """The next notification, with a content of its own that may be changed.

        Args:
            timeout: seconds; None waits until the subscription ends.

        Raises:
            ReceiveTimeout: when none came in time.
            SubscriptionClosed: when the subscription has ended; its cause is `refusal`.
            AgentClosed: in a forked child, when it is the parent's.
            ConfigError: for one with a callback, which gets them.
        """
        return self._own(self._take(timeout))

    def _own(self, entry: Arrival) -> Notification:
        try:
            return own(entry.notification or entry.open())
        finally:
            entry.book.consumed(entry)

    @contextmanager
    def recv_zero_copy(self, timeout: float | None = None) -> Generator[Notification]:
        """The next notification with the shared content, read-only by agreement; errors as `recv`.

        A content in shared memory is let go of at the end: the notification has it no longer then. An
        array, or a slice, that is kept by itself stays true and keeps the publisher's memory in use.
        """
        entry = self._take(timeout)
        lent = copy.copy(entry.open())
        try:
            yield lent
        finally:
            if entry.leased:
                let_go(lent)
            entry.consumed()

    def _take(self, timeout: float | None) -> Arrival:
        """As `recv`, before it is copied."""
        deadline = None if timeout is None else time.monotonic() + checked_wait(timeout)
        while (entry := self._next()) is None:
            left = SLICE if deadline is None else min(deadline - time.monotonic(), SLICE)
            if left <= 0:
                raise ReceiveTimeout(f"no notification of {self.topic} within {timeout:g} s")
            arrived = threading.Lock()
            arrived.acquire()
            waker = arrived.release
            try:
                if self._want(waker):
                    arrived.acquire(timeout=left)
            finally:
                self._forget(waker)
        return entry

    def _next(self) -> Arrival | None:
        """The next entry that can be opened; None when there is none now.

        Raises:
            SubscriptionClosed: when the subscription has ended.
            AgentClosed: when it is the parent's of this forked process.
        """
        check_own(self._forks, self)
        while True:
            with self._mutex:
                entry, closed = self._inbox.take() if self._inbox.items else None, self._closed
            if entry is None and closed:
                why = "" if self.refusal is None else f": {self.refusal}"
                raise SubscriptionClosed(f"the subscription to {self.topic} has ended{why}") from self.refusal
            if entry is None or self._opened(entry) is not None:
                return entry
            entry.consumed()

    def _want(self, waker: Callable[[], object]) -> bool:
        """Have whoever waits woken by this; False when there is no need to wait.

        Raises:
            ConfigError: when nothing would ever be there to take.
        """
        with self._mutex:
            waits = not (self._closed or len(self._inbox))
            if waits and self._callback is not None:
                raise ConfigError(
                    f"nothing can be read of {self!r}: its callback gets every notification; "
                    "subscribe without a callback to read them"
                )
            if waits:
                self._wakers = (*self._wakers, waker)
            return waits

    def _forget(self, waker: Callable[[], object]) -> None:
        """Nobody waits any more."""
        if self._wakers:
            with self._mutex:
                self._wakers = tuple([each for each in self._wakers if each is not waker])

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
        try:
            while (entry := self._next()) is None:
                arrived = asyncio.Event()
                waker = partial(_wake, loop, arrived)
                try:
                    if self._want(waker):
                        await arrived.wait()
                finally:
                    self._forget(waker)
        except SubscriptionClosed:
            raise StopAsyncIteration from None
        return self._own(entry)

    @abstractmethod
    def close(self) -> None:
        """End it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the reader's event loop may be gone by now
        loop.call_soon_threadsafe(arrived.set)
