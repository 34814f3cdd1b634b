"""Helpers: the few threads of a process that wait for agents which may not answer.

::

    task        runs
    fresh       before all others, in the order in which they came
    again       as long as one helper at least is left for fresh ones

So agents that cannot be reached for long do not hold up one that was lost just now.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from ..protocol.errors import AgentClosed
from . import loop
from .executor import Executor
from .tables import Leases

HELPERS = 4

_SCARCE = 0.25  # seconds until a thread is asked for again where there was none

Task = Callable[[], object]


class Helpers:
    """Made by `acquire`, never directly; safe from any thread."""

    def __init__(self) -> None:
        self._loop = loop.acquire()
        self._executor = Executor("pzc-helpers", threads=HELPERS)
        self._lock = threading.Lock()
        self._fresh: deque[Task] = deque()
        self._again: deque[Task] = deque()
        self._repeating = 0

    def submit(self, task: Task, *, again: bool = False, after: float = 0.0) -> None:
        """Run a task soon.

        Args:
            task: a few seconds long at most.
            again: it failed before, or nobody waits for it.
            after: seconds until then, in which no thread waits.
        """
        if after:
            self._loop.call_later(after, partial(self.submit, task, again=again))
            return
        (self._again if again else self._fresh).append(task)
        self._begin()

    def _begin(self) -> None:
        try:
            self._executor.submit(self._run)
        except AgentClosed:
            pass
        except RuntimeError:
            self._loop.call_later(_SCARCE, self._begin)

    def _run(self) -> None:
        with self._lock:
            again = not self._fresh
            if again and (not self._again or self._repeating >= HELPERS - 1):
                return  # whoever repeats now comes back
            task = (self._again if again else self._fresh).popleft()
            self._repeating += again
        try:
            task()
        finally:
            with self._lock:
                self._repeating -= again
                left = again and bool(self._again)
            if left:
                self._begin()

    def end(self) -> None:
        """Forget what waits; any thread but the I/O thread."""
        self._executor.close()
        loop.release(self._loop)


_helpers: Leases[Helpers] = Leases()


def acquire() -> Helpers:
    """The helpers of the process; every `acquire` needs one `release`."""
    return _helpers.lease("", Helpers)


def release(helpers: Helpers) -> None:
    """Give them back; the last user ends them. Never call it from the I/O thread."""
    if _helpers.release(helpers):
        helpers.end()
