"""Helpers: the few threads of a process that wait for agents which may not answer.

::

    task        runs
    fresh       before all others, in the order in which they came
    again       when none is fresh, and a helper at least is left for one that is
    new         when nothing else waits, and two helpers at least are left for the others

So agents that cannot be reached for long do not hold up one that was lost just now, and those that were never
met hold up nobody.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from ..protocol.errors import AgentClosed
from . import loops
from .executor import NO_THREAD, Executor
from .loop import Loop
from .tables import Leases

HELPERS = 4

Task = Callable[[], object]


class Helpers:
    """Made by `acquire`, never directly; safe from any thread."""

    def __init__(self) -> None:
        self._loop = loops.acquire()
        self._executor = Executor("pzc-helpers", threads=HELPERS)
        self._lock = threading.Lock()
        self._waiting: tuple[deque[Task], ...] = (deque(), deque(), deque())  # fresh, again, new
        self._running = [0, 0, 0]

    def submit(self, task: Task, *, again: bool = False, new: bool = False, after: float = 0.0) -> None:
        """Run a task soon.

        Args:
            task: a few seconds long at most.
            again: it failed before.
            new: it looks for somebody who was not met yet.
            after: seconds until then, in which no thread waits.
        """
        if after:
            self._loop.call_later(after, partial(self.submit, task, again=again, new=new))
            return
        self._waiting[2 if new else int(again)].append(task)
        self._begin()

    def _begin(self) -> None:
        try:
            self._executor.submit(self._run)
        except AgentClosed:
            pass
        except RuntimeError:
            self._loop.call_later(NO_THREAD, self._begin)

    def _run(self) -> None:
        with self._lock:
            rank = next((rank for rank in range(3) if self._may_run(rank)), None)
            if rank is None:
                return  # whoever runs one of that kind now comes back
            task = self._waiting[rank].popleft()
            self._running[rank] += 1
        try:
            task()
        finally:
            with self._lock:
                self._running[rank] -= 1
                left = rank and any(self._waiting)
            if left:
                self._begin()

    def _may_run(self, rank: int) -> bool:
        return bool(self._waiting[rank]) and sum(self._running[rank:]) < HELPERS - rank

    def end(self) -> None:
        """Forget what waits; any thread but the I/O thread."""
        self._executor.close()
        loops.release(self._loop)


def aside(io: Loop, function: Task) -> None:
    """Run what waits, such as a close, in a thread of its own; from any thread, also in a finalizer."""

    def begin() -> None:
        try:
            threading.Thread(target=function, name="pzc-close", daemon=True).start()
        except RuntimeError:
            io.call_later(NO_THREAD, begin)

    io.call(begin)  # the collector may run this while its thread starts another one


_helpers: Leases[Helpers] = Leases()


def acquire() -> Helpers:
    """The helpers of the process; every `acquire` needs one `release`."""
    return _helpers.lease("", Helpers)


def release(helpers: Helpers) -> None:
    """Give them back; the last user ends them. Never call it from the I/O thread."""
    if _helpers.release(helpers):
        helpers.end()
