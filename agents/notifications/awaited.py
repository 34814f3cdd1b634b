"""Awaited: callbacks that are ``async def``.

They run on an event loop of the agent, in a thread of its own. Each subscription has a thread that waits for
its coroutine, so that all that is said of callbacks is true of these as well: they run in order, one at a
time, and a notification is done with when its coroutine has ended. Those of different subscriptions run side
by side.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from ...protocol.errors import PeerLost
from ...protocol.notification import Callback, Notification
from ...transport.executor import Executor
from ..interfaces import Coroutines
from .subscription import Subscription

CoroutineFunction = Callable[[Notification], Coroutine[Any, Any, object]]


def is_awaited(callback: object) -> bool:
    """True for a coroutine function, and for an object that is called like one."""
    if not callable(callback):
        return False
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__)


class Waiting(Executor):
    """Waits for the coroutines of one subscription.

    In the thread of the event loop nothing is waited for: whatever it would be, would wait for itself.
    """

    def __init__(self, name: str, awaited: Awaited) -> None:
        super().__init__(name)
        self._awaited = awaited

    def in_thread(self) -> bool:
        """As `Executor.in_thread`, and True in the event loop."""
        return self._awaited.in_thread() or super().in_thread()


class Awaited:
    """The coroutine callbacks of one agent; safe from any thread.

    Args:
        name: of the agent, for the threads' names.
        coroutines: runs them, on an event loop of their own.
    """

    def __init__(self, name: str, coroutines: Coroutines) -> None:
        self._name = name
        self._coroutines = coroutines
        self._lock = threading.Lock()
        self._waiting: list[tuple[Executor, Subscription]] = []
        self._thread = 0
        self._closed = False

    def in_thread(self) -> bool:
        """True in the thread of the event loop."""
        return threading.get_ident() == self._thread

    def wrap(self, function: CoroutineFunction) -> tuple[Callback, Executor]:
        """A callback that runs a coroutine function and waits for it, and where it runs."""
        executor = Waiting(f"pzc-callbacks {self._name}".strip(), self)

        async def run(notification: Notification) -> None:
            self._thread = threading.get_ident()
            await function(notification)

        def callback(notification: Notification) -> None:
            if self._closed:
                return
            try:
                self._coroutines.run(run(notification))
            except PeerLost:
                if not self._closed:
                    raise

        return callback, executor

    def adopt(self, executor: Executor, subscription: Subscription) -> None:
        """A subscription has begun to use what `wrap` made; the threads of those that have ended end now."""
        with self._lock:
            ended = [each for each in self._waiting if each[1].closed]
            self._waiting = [each for each in self._waiting if not each[1].closed]
            self._waiting.append((executor, subscription))
        for each, _ in ended:
            each.abandon()

    def cancel(self) -> None:
        """Cancel what runs; nothing more begins."""
        self._closed = True
        self._coroutines.close()

    def close(self) -> None:
        """End the threads, after `cancel`."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for executor, _ in waiting:
            executor.close()
