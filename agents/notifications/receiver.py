"""Receiver: what brings notifications to a process, and looks for publishers that were lost.

One more `Loop` owns what is read without a question: the Unix connections of links and the SUB sockets. Few
helpers meet publishers again and open links anew::

    task        runs
    fresh       before all others, in the order in which they came
    again       while one helper at least is left for fresh ones

So publishers that cannot be reached for long do not hold up one that was lost just now.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ...protocol.errors import AgentClosed, BindError
from ...transport import loop
from ...transport.executor import Executor
from ...transport.loop import Loop
from ...transport.tables import Leases

HELPERS = 3

_SCARCE = 0.25  # seconds until a thread is asked for again where there was none

Task = Callable[[], object]


class Helpers:
    """Threads for what waits for publishers; each task ends within a few seconds.

    Args:
        loop: for when no thread is left.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._executor = Executor("pzc-links", threads=HELPERS)
        self._lock = threading.Lock()
        self._fresh: deque[Task] = deque()
        self._again: deque[Task] = deque()
        self._repeating = 0

    def submit(self, task: Task, *, again: bool = False) -> None:
        """Run a task soon.

        Args:
            task: at most about two seconds long.
            again: it failed before.
        """
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

    def close(self) -> None:
        """Forget what waits; any thread."""
        self._executor.close()


class Receiver:
    """The receiver of a process; made by `acquire`.

    Attributes:
        loop: reads.
        helpers: meet publishers.
    """

    def __init__(self) -> None:
        self._io = loop.acquire()
        try:
            self.loop = Loop("pzc-notify", self._io.context)
        except (OSError, RuntimeError) as exc:
            loop.release(self._io)
            raise BindError(
                f"the thread that receives notifications cannot start: {exc}; close what is not needed, or "
                "raise the limit of descriptors (ulimit -n) or of threads (ulimit -u)"
            ) from exc
        self.helpers = Helpers(self.loop)

    def end(self) -> None:
        """End its threads, but for the one that calls."""
        self.loop.end()
        self.helpers.close()
        loop.release(self._io)


class _Receivers(Leases[Receiver]):
    """The process's one receiver, and how many links and agents use it."""

    def forget(self) -> None:
        for receiver in self.things.values():
            receiver.loop.disown()


_receivers = _Receivers()


def acquire() -> Receiver:
    """The process's receiver, started by its first user; every `acquire` needs one `release`.

    Raises:
        BindError: when there are no descriptors, or no thread, for it.
    """
    return _receivers.lease("", Receiver)


def release(receiver: Receiver) -> None:
    """Give the receiver back; the last user ends it. Never call it from its loop."""
    if _receivers.release(receiver):
        receiver.end()
