"""LoopSlot: a coroutine function as the slot of a signal.

::

    state      event                                            next
    idle       called in the proxy's thread                     running: as a task of its event loop
    running    the task ended, or was cancelled                 idle: the thread goes on to the next call
    running    the task disconnects it, or closes its proxy     over: the thread goes on, without this slot
    any        the event loop is closed                         over, disconnected
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from ...signals import Slot, accepted_arguments, is_awaited
from ..remote import RemoteObject

logger = logging.getLogger("pzc.aio")

LOOK = 1.0
"""Seconds between two looks whether the event loop of a running slot still exists."""


class LoopSlot:
    """Called in a thread, it runs a coroutine function in an event loop and waits for its end.

    Args:
        slot: the coroutine function.
        loop: where it runs.
        remote: of the signal.
        name: of the signal.
    """

    def __init__(self, slot: Slot, loop: asyncio.AbstractEventLoop, remote: RemoteObject, name: str) -> None:
        self.remote = remote
        self.name = name
        self._slot = slot
        self._loop = loop
        self._count = accepted_arguments(slot)
        self._ended = False
        self._over: Future[None] = Future()
        self._task: asyncio.Task[None] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoopSlot) and (self._slot, self._loop) == (other._slot, other._loop)

    def __hash__(self) -> int:
        return hash((self._slot, self._loop))

    def __repr__(self) -> str:
        return repr(self._slot)

    def __call__(self, *args: Any) -> None:
        """Run the coroutine function with as many of the arguments as it takes; raises what it raises."""
        if self._ended:
            return
        over: Future[None] = Future()
        self._over = over
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._begin, over, args[: self._count])
        while not wait([over], LOOK).done:
            if self._loop.is_closed():
                logger.warning("%r is disconnected from %s: its event loop is closed", self, self.name)
                self.remote.disconnect(self.name, self)
                return
        over.result()

    def _begin(self, over: Future[None], args: tuple[Any, ...]) -> None:
        self._task = self._loop.create_task(self._run(args))  # an event loop itself holds tasks weakly
        self._task.add_done_callback(partial(_pass_on, over))

    async def _run(self, args: tuple[Any, ...]) -> None:
        _running.set(self)
        await self._slot(*args)

    def end(self) -> None:
        """Never run again, and let the thread go on: what the slot awaits now would wait for it."""
        self._ended = True
        if not self._over.done():
            self._over.set_result(None)


_running: ContextVar[LoopSlot | None] = ContextVar("pzc_running_slot", default=None)


def _pass_on(over: Future[None], task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if over.done():
        return
    if error is None:
        over.set_result(None)
    else:
        over.set_exception(error)


def in_loop(slot: Slot, remote: RemoteObject, name: str) -> Slot:
    """The slot as a signal may call it in a thread; a coroutine function runs in the caller's event loop."""
    if is_awaited(slot):
        return LoopSlot(slot, asyncio.get_running_loop(), remote, name)
    return slot


def end_own(remote: RemoteObject | None, name: str | None = None, slot: Slot | None = None) -> None:
    """Called before slots are disconnected: when the caller is such a slot, nobody waits for its end.

    Args:
        remote: whose slots are disconnected.
        name: of their signal; None: of every signal.
        slot: the one slot; None: every one.
    """
    running = _running.get()
    if running is None or running.remote is not remote:
        return
    if name in (None, running.name) and slot in (None, running):
        running.end()
