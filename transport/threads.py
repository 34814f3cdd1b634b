"""Threads, of which a process can have only so many, and waits of the user's threads, which Ctrl-C ends.

Every wait of `threading` and of futures is for a lock, and on Windows no signal interrupts that: the handler
of Ctrl-C runs after it. So such waits are done in slices of `SLICE` seconds there, elsewhere in one piece.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.errors import LocalLimit

T = TypeVar("T")

SLICED = os.name == "nt"

SLICE = 0.2 if SLICED else threading.TIMEOUT_MAX
"""Seconds of the longest wait at once; whoever waits looks again after it."""


def begin(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        LocalLimit: when this process can have no more of them.
    """
    try:
        thread.start()
    except RuntimeError as exc:
        text = f"{exc}: end what is not needed, or raise the limit of threads (ulimit -u)"
        raise LocalLimit(text) from exc


def waited(wait: Callable[[float], object], timeout: float | None, most: float = SLICE) -> bool:
    """Wait in slices by what waits so many seconds.

    Args:
        wait: gives something true when it need wait no longer.
        timeout: seconds; None for no end.
        most: seconds of a slice.

    Returns:
        False when the time is over.
    """
    if timeout is not None and timeout <= most:
        return bool(wait(max(0.0, timeout)))
    until = time.monotonic() + (threading.TIMEOUT_MAX if timeout is None else timeout)
    while not wait(max(0.0, min(most, until - time.monotonic()))):
        if time.monotonic() >= until:
            return False
    return True


def acquired(lock: threading.Lock | threading.RLock, timeout: float) -> bool:
    """Take a lock; False when the time is over."""
    return waited(lambda seconds: lock.acquire(timeout=seconds), timeout)


class SlicedFuture(futures.Future[T]):
    """A future whose waits are done in slices."""

    def result(self, timeout: float | None = None) -> T:
        """As of every future."""
        waited(self._settled, timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Likewise."""
        waited(self._settled, timeout)
        return super().exception(0)

    def _settled(self, seconds: float) -> bool:
        with suppress(TimeoutError, futures.CancelledError):
            super().exception(seconds)
        return self.done()


if TYPE_CHECKING or not SLICED:
    from concurrent.futures import Future as Future
else:
    Future = SlicedFuture


class Condition(threading.Condition):
    """A condition whose ``with`` blocks take and release the lock in one step.

    Those of its base class are functions: what a signal's handler raises at their beginning, or end, such as
    KeyboardInterrupt, leaves the lock held for ever.

    Args:
        lock: default a reentrant one of its own.
    """

    def __init__(self, lock: Any = None) -> None:
        self.lock = threading.RLock() if lock is None else lock
        super().__init__(self.lock)

    if SLICED:

        def wait(self, timeout: float | None = None) -> bool:
            """As of every condition, for one slice in the main thread: whoever waits looks again."""
            if threading.current_thread() is threading.main_thread():
                timeout = SLICE if timeout is None else min(timeout, SLICE)
            return super().wait(timeout)

    if not TYPE_CHECKING:
        __enter__: Callable[[], bool] = property(attrgetter("lock.__enter__"))
        __exit__: Callable[..., None] = property(attrgetter("lock.__exit__"))
