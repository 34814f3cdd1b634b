"""Executor: one thread that runs functions one at a time in arrival order.

Lanes and callback delivery are both made of it. The queue is bounded: a full one refuses, it
never grows. The thread starts with the first function and ends at `close`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from ..protocol.errors import AgentClosed

logger = logging.getLogger("pzc.dispatch")

CLOSE_TIMEOUT = 2.0
"""Seconds that `Executor.close` waits for a running function before it leaves it behind."""


class Executor:
    """Runs functions in one daemon thread.

    Args:
        name: of the thread.
        bound: most functions waiting.
    """

    def __init__(self, name: str, bound: int = 100_000) -> None:
        self._name = name
        self._bound = bound
        self._waiting: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.refused = 0
        self.errors = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, function: Callable[[], object]) -> bool:
        """Queue a function; False, and counted, when the queue is full.

        Raises:
            AgentClosed: after `close`.
        """
        with self._changed:
            if self._closed:
                raise AgentClosed(f"{self._name} is closed")
            if len(self._waiting) >= self._bound:
                self.refused += 1
                return False
            self._waiting.append(function)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            else:
                self._changed.notify()
            return True

    def abandon(self) -> list[Callable[[], object]]:
        """Take back what is waiting; nothing more is accepted and the thread ends after its function."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        return waiting

    def in_thread(self) -> bool:
        """True when the caller is the executor's thread."""
        return threading.current_thread() is self._thread

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Forget what is waiting and end the thread; False when a function still runs."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is None or self.in_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                function = self._waiting.popleft()
            try:
                function()
            except BaseException:  # even SystemExit may end one function only
                self.errors += 1
                logger.exception("a function of %s failed", self._name)
            del function  # what it holds may be large, and the next may be long in coming
