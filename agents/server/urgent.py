"""Urgent calls that came without a thread of their own: eight threads, shared by the keys that ask."""

from __future__ import annotations

import threading
from collections import deque

from ...protocol.errors import PzcError, Refused
from ...transport.executor import Executor
from .call import Call
from .lane import NO_THREAD, begin

THREADS = 8
"""Urgent calls that run at a time."""

MOST_WAITING = 64
"""Urgent calls of one key that wait for a thread; without keys of one agent."""

_MOST_IN_ALL = 4096
"""Urgent calls that wait for a thread: whoever has no key may say any agent."""


class Urgent:
    """Runs urgent calls; safe from any thread.

    A call begins while more threads are free than its key holds, so that one key holds half of them at most.
    Without keys each agent counts for itself.
    """

    def __init__(self) -> None:
        self._executor = Executor("pzc-urgent", threads=THREADS)
        self._lock = threading.Lock()
        self._waiting: deque[Call] = deque()
        self._running: list[str] = []

    def submit(self, call: Call) -> PzcError | None:
        """Run a call as soon as its key may have a thread; why it will not run."""
        with self._lock:
            waiting = [_who(each) for each in self._waiting]
            if len(waiting) >= _MOST_IN_ALL or waiting.count(_who(call)) >= MOST_WAITING:
                return Refused(NO_THREAD)
            self._waiting.append(call)
            if (error := begin(self._executor, self._work)) is not None:
                self._waiting.remove(call)
            return error

    def close(self) -> None:
        """Forget what waits, and do not wait for what runs."""
        with self._lock:
            self._waiting.clear()
        self._executor.close(0.0)

    def _work(self) -> None:
        while (call := self._next()) is not None:
            try:
                call.work()
            finally:
                with self._lock:
                    self._running.remove(_who(call))

    def _next(self) -> Call | None:
        with self._lock:
            free = THREADS - len(self._running)
            for call in self._waiting:
                if self._running.count(_who(call)) < free:
                    self._waiting.remove(call)
                    self._running.append(_who(call))
                    return call
            return None


def _who(call: Call) -> str:
    return call.key_id or call.caller.identity.agent
