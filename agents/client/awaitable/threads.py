"""Awaiting what threads do: futures that any event loop can wait for, and functions that would block one.

An event loop that is closed while a future is still open is no error here: nobody is woken.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from ....transport.threads import begin
from ..pending import Pending

T = TypeVar("T")


async def finished(future: Future[Any]) -> None:
    """Wait until a future is done; cancelling the wait does not cancel the future."""
    if not future.done():
        await Awaited(future).finished()


class Awaited(Generic[T]):
    """A future that may be waited for again and again: a wait that was cancelled leaves nothing behind.

    Args:
        future: whose end is waited for.
    """

    def __init__(self, future: Future[T]) -> None:
        self.future = future
        self._waiting: set[Callable[[Future[Any]], None]] = set()
        wake = partial(_wake_all, self._waiting)
        if isinstance(future, Pending):
            future.when_done(wake)
        else:
            future.add_done_callback(wake)

    async def finished(self) -> None:
        """As `finished`."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        wake = partial(_wake, loop, waiter)
        self._waiting.add(wake)
        try:
            if not self.future.done():  # else nobody would wake it
                await waiter
        finally:
            self._waiting.discard(wake)


def _wake_all(waiting: set[Callable[[Future[Any]], None]], future: Future[Any]) -> None:
    for wake in waiting.copy():
        wake(future)


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _: Future[Any]) -> None:
    with suppress(RuntimeError):  # the event loop may be closed by now
        loop.call_soon_threadsafe(_set, waiter)


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def outcome(future: Future[T]) -> T:
    """Result of a future; cancelling the wait cancels the future.

    Raises:
        Exception: of the future.
    """
    try:
        await finished(future)
        return future.result()
    except BaseException:  # also the end of a coroutine that nobody will resume
        future.cancel()
        raise
    finally:
        del future  # an error's traceback has this frame, and the future the error


async def in_thread(function: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Result of a function that blocks for a bounded time, run in a thread of its own.

    Args:
        function: what to run.
        undo: called with the result, in a thread, when the wait was cancelled.

    Raises:
        Exception: what the function raised.
    """
    future = start(function)
    try:
        await finished(future)
    except BaseException:
        if undo is not None:
            _undo_when_done(future, undo)
        raise
    try:
        return future.result()
    finally:
        del future  # as above


def _undo_when_done(future: Future[T], undo: Callable[[T], object]) -> None:
    def act(done: Future[T]) -> None:
        if done.exception() is None:
            undo(done.result())

    if future.done():  # else the function's own thread does it
        start(partial(act, future))
    else:
        future.add_done_callback(act)


def start(function: Callable[[], T]) -> Future[T]:
    """Run a function in a daemon thread of its own, which no event loop waits for when it ends.

    Returns:
        Future of its result; it cannot be cancelled.

    Raises:
        LocalLimit: when there is no thread for it.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    begin(threading.Thread(target=_run, args=(function, future), name="pzc-aio", daemon=True))
    return future


def _run(function: Callable[[], T], future: Future[T]) -> None:
    try:
        result = function()
    except BaseException as exc:  # whoever awaits it gets it
        future.set_exception(exc)
    else:
        future.set_result(result)
    finally:
        del future  # as above
