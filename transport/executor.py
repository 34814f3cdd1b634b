"""Executor: threads that run functions in arrival order.

Callback delivery is made of it, and the workers of a lane. The queue is bounded: a full one
refuses, it never grows. A thread starts when a function finds none idle, and ends at `close`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from ..protocol.errors import AgentClosed

logger = logging.getLogger("pzc.dispatch")

CLOSE_TIMEOUT = 2.0
"""Seconds that `Executor.close` waits for a running function before it leaves it behind."""


class Executor:
    """Runs functions in daemon threads; with one thread, one at a time.

    Args:
        name: of the threads.
        bound: most functions waiting.
        threads: most threads.
    """

    def __init__(self, name: str, bound: int = 100_000, threads: int = 1) -> None:
        self._name = name
        self._bound = bound
        self._most = threads
        self._waiting: deque[Callable[[], object]] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._here = 0  # number of the thread that runs a function in their place
        self._closed = False
        self.refused = 0
        self.errors = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, function: Callable[[], object]) -> bool:
        """Queue a function; False, and counted, when the queue is full.

        Raises:
            AgentClosed: after `close`.
            RuntimeError: when there is no thread for it.
        """
        with self._changed:
            if self._closed:
                raise AgentClosed(f"{self._name} is closed")
            if len(self._waiting) >= self._bound:
                self.refused += 1
                return False
            self._waiting.append(function)
            if self._idle < len(self._waiting) and len(self._threads) < self._most:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no thread is left
                    if not self._threads:
                        self._waiting.pop()
                        raise
                else:
                    self._threads.append(thread)
            else:
                self._changed.notify()
            return True

    def abandon(self) -> list[Callable[[], object]]:
        """Take back what is waiting; nothing more is accepted and each thread ends after its function."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        return waiting

    def run_here(self, function: Callable[[], object]) -> bool:
        """Run a function in the calling thread, in place of the executor's own; False when it is busy.

        For an executor of one thread: until the function has ended, nothing else runs.
        """
        with self._lock:
            if self._closed or self._waiting or self._here or self._idle < len(self._threads):
                return False
            self._here = threading.get_ident()
        try:
            function()
        finally:
            with self._lock:
                self._here = 0
                if self._waiting or self._closed:  # else nobody waits for this end, but who is idle
                    self._changed.notify_all()
        return True

    def in_thread(self) -> bool:
        """True when the caller is one of the executor's threads, or runs a function in their place."""
        return threading.get_ident() == self._here or threading.current_thread() in self._threads

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Forget what is waiting and end the threads; False when a function still runs."""
        self.abandon()
        if self.in_thread():
            return True
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            over = self._changed.wait_for(lambda: not self._here, max(0.0, deadline - time.monotonic()))
        return over and not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while (not self._waiting or self._here) and not self._closed:
                    self._changed.wait()
                self._idle -= 1
                if self._closed:
                    return
                function = self._waiting.popleft()
            try:
                function()
            except BaseException:  # even SystemExit may end one function only
                self.errors += 1
                logger.exception("a function of %s failed", self._name)
            del function  # what it holds may be large, and the next may be long in coming
