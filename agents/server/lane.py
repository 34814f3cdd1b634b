"""Lane: who may work with the served object now: in arrival order, the holders of several keys in turn.

::

    entry      event                                 next
    -          slot free, nobody waits               running
    -          all slots taken                       waiting, behind the others
    waiting    a slot is left                        running (its thread goes on, or a worker starts it)
    waiting    removed, its time is over, closed     over, without having run
    running    left                                  over; the first with the next key gets the slot

A thread that may wait does so, and works by itself, without a thread hop. What came without a thread of its
own runs in a worker of the lane. With ``affine`` everything is run by one worker, for drivers that insist on
their thread.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from functools import partial
from threading import get_ident
from time import monotonic

from ...protocol.errors import (
    AgentClosed,
    CallCancelled,
    CallTimeout,
    ConfigError,
    LocalLimit,
    PeerLost,
    PzcError,
    Refused,
)
from ...transport.executor import CLOSE_TIMEOUT, Executor
from ...transport.threads import Condition

_LANE_WAITING = 50_000
"""Requests of one key that may wait for one lane."""

_LANE_LOOK = 0.5
"""Seconds between two looks whether the sender of a waiting request is still there."""


STOPPING = "this agent is being stopped; the request was not executed"
NO_THREAD = "this agent has no thread left to run it; end what is not needed, or raise the limit (ulimit -u)"

_NEW, _WAITING, _RUNNING, _OVER = range(4)


class QueueEntry(ABC):
    """One piece of work in the queue of a lane.

    Attributes:
        asked: somebody asked for it, who can be refused.
        since: when it came, and from a turn on that it had to wait for when that began, in monotonic seconds.
        label: what it is and for whom, for people.
        state: row of the table above; the lane's lock protects it.
        gate: released when its turn has come or will not come; None without a thread that waits.
        reason: why its turn did not come.
    """

    # What most entries keep stands here once, instead of being set in each.
    asked = True
    since = 0.0
    state = _NEW
    gate: threading.Lock | None = None
    reason: Exception | None = None

    @property
    def label(self) -> str:
        """What it is and for whom, for people."""
        return "another piece of work"

    @property
    def key_id(self) -> str:
        """Of the key that it is done for; empty without one."""
        return ""

    @property
    def runs(self) -> bool:
        """True while it is its turn."""
        return self.state == _RUNNING

    @property
    def patience(self) -> float | None:
        """Seconds for which it may wait; None for ever."""
        return None

    def begin(self) -> None:
        """Run beside the lanes, from now on."""
        self.state, self.since = _RUNNING, monotonic()

    @abstractmethod
    def work(self) -> None:
        """Do it; in a worker of the lane."""

    @abstractmethod
    def refuse(self, error: Exception) -> None:
        """Its turn will not come; for one without a thread that waits."""

    def is_unwanted(self) -> bool:
        """True when nobody waits for it any more; asked now and then while its thread waits."""
        return False


class Work(QueueEntry):
    """A function of the server's own as an entry; what asks for it is bounded elsewhere."""

    asked = False

    def __init__(self, function: Callable[[], object]) -> None:
        self.since = monotonic()
        self._function: Callable[[], object] | None = function

    def work(self) -> None:
        """Run it."""
        function, self._function = self._function, None
        if function is not None:
            function()

    def refuse(self, error: Exception) -> None:
        """Nobody wants to know."""


def begin(workers: Executor, work: Callable[[], object]) -> PzcError | None:
    """Let one of the workers do something; why none can."""
    try:
        return None if workers.submit(work) else Refused(NO_THREAD)
    except AgentClosed:
        return PeerLost(STOPPING)
    except LocalLimit:
        return Refused(NO_THREAD)


class Lane:
    """Slots and a queue; safe from any thread.

    Args:
        name: of the agent, for the threads' names.
        concurrency: entries that may run at the same time.
        affine: run everything in one and the same thread.

    Attributes:
        turns: entries that run now, and the thread that works.

    Raises:
        ConfigError: for a concurrency below 1, or above 1 together with ``affine``.
    """

    def __init__(self, name: str, concurrency: int = 1, affine: bool = False) -> None:
        if type(concurrency) is not int or concurrency < 1 or (affine and concurrency > 1):
            raise ConfigError(
                f"concurrency={concurrency!r} is not possible"
                + (" with thread_affine: one thread runs one call at a time" if affine else "")
            )
        self.affine = affine
        self._free = concurrency
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, deque[QueueEntry]] = OrderedDict()  # by key; the next one first
        self._counts: Counter[str] = Counter()  # of what waits, by key
        self.turns: dict[QueueEntry, int] = {}
        self._idle = Condition(self._lock)
        self._closed = False
        self._workers = Executor(f"pzc-lane {name}".strip(), threads=concurrency)

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def running(self) -> list[QueueEntry]:
        """What runs now."""
        return list(self.turns)

    def enter(self, entry: QueueEntry) -> None:
        """Wait for a turn of the calling thread, as long as it has patience; `leave` ends it.

        Args:
            entry: new.

        Raises:
            CallCancelled: when it was removed.
            CallTimeout: when it did not come in time; it says what runs.
            PeerLost: when the lane is being closed, or nobody wants the turn any more.
            Refused: when `_LANE_WAITING` others with its key wait.
        """
        with self._lock:
            if self._free and not self._waiting and not self._closed:
                self._free -= 1
                entry.state = _RUNNING
                self.turns[entry] = get_ident()
                return
            self._wait(entry)
            gate = entry.gate = threading.Lock()
            gate.acquire()
        wait = entry.patience
        until = None if wait is None else monotonic() + wait
        look = _LANE_LOOK
        while not gate.acquire(timeout=look if until is None else max(0.0, min(look, until - monotonic()))):
            if until is not None and monotonic() >= until:
                self.remove(entry, self.late(entry, wait))
            elif entry.is_unwanted():
                self.remove(entry, PeerLost("its sender left before its turn; it was not executed"))
        if entry.reason is not None:
            raise entry.reason
        self.turns[entry] = get_ident()

    def submit(self, entry: QueueEntry) -> bool:
        """Run an entry in a worker when its time comes; True when that is now. Errors as `enter`."""
        with self._lock:
            now = bool(self._free and not self._waiting and not self._closed)
            if now:
                self._free -= 1
                entry.state = _RUNNING
            else:
                self._wait(entry)
        if now and (error := self._start(entry)) is not None:
            self.leave(entry)
            raise error
        return now

    def run(self, function: Callable[[], object]) -> None:
        """Run a function in its turn, in a worker, however many entries wait.

        Raises:
            PeerLost, Refused: when the lane is being closed, or no thread is left.
        """
        self.submit(Work(function))

    def _wait(self, entry: QueueEntry) -> None:
        """Put an entry after the others; with the lock."""
        if self._closed:
            raise PeerLost(STOPPING)
        if entry.asked and self._counts[entry.key_id] >= _LANE_WAITING:
            raise Refused(
                f"no room: {_LANE_WAITING} requests with this key wait for their turn here; wait for some of "
                "them, or end what sends so many"
            )
        entry.state = _WAITING
        self._waiting.setdefault(entry.key_id, deque()).append(entry)
        self._counts[entry.key_id] += 1

    def _start(self, entry: QueueEntry) -> PzcError | None:
        """Let it run; why no thread can, so that its turn has to end."""
        entry.since = monotonic()
        self.turns[entry] = 0
        if entry.gate is not None:
            entry.gate.release()
            return None
        return begin(self._workers, partial(self._work, entry))

    def _work(self, entry: QueueEntry) -> None:
        self.turns[entry] = get_ident()
        try:
            entry.work()
        finally:
            self.leave(entry)

    def in_thread(self) -> bool:
        """True when the calling thread runs an entry of this lane."""
        return get_ident() in list(self.turns.values())

    def leave(self, entry: QueueEntry) -> None:
        """End an entry: give the slot to whoever waits longest."""
        while True:
            entry.state = _OVER
            with self._lock:
                del self.turns[entry]
                following = self._next() if self._waiting else None
                if following is None:
                    self._free += 1
                    if self._closed:
                        self._idle.notify_all()
                    return
            error = self._start(following)
            if error is None:
                return
            following.refuse(error)
            entry = following

    def _next(self) -> QueueEntry | None:
        while self._waiting:
            key_id, queue = self._waiting.popitem(last=False)
            while queue:
                following = queue.popleft()
                if following.state == _WAITING:
                    if queue:  # whoever has many waits behind the others
                        self._waiting[key_id] = queue
                    self._counts[key_id] -= 1
                    following.state = _RUNNING
                    return following
        return None

    def late(self, entry: QueueEntry, wait: float | None) -> CallTimeout:
        """The error of a turn that did not come within so many seconds; it says what runs."""
        now = monotonic()
        running = [f"{each.label} has been running for {now - each.since:.1f} s" for each in self.running]
        told = f": {', '.join(running)}" if running else ""
        return CallTimeout(f"{entry.label} did not get its turn within {wait or 0:g} s{told}")

    def remove(self, entry: QueueEntry, reason: Exception | None = None) -> bool:
        """End an entry that waits; False when it has not been entered yet, runs or is over."""
        with self._lock:
            if entry.state != _WAITING:
                return False
            entry.state = _OVER
            entry.reason = reason or not_started()
            self._counts[entry.key_id] -= 1
            queues = self._waiting.values()
            if len(self) * 2 < sum(map(len, queues)):  # what was removed leaves the queues by and by
                for queue in queues:
                    left = [other for other in queue if other.state == _WAITING]
                    queue.clear()
                    queue.extend(left)
        if entry.gate is not None:
            entry.gate.release()
        else:
            entry.refuse(entry.reason)
        return True

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Refuse what waits, and wait for what runs, at most ``timeout`` seconds."""
        with self._lock:
            self._closed = True
            waiting = [
                entry for queue in self._waiting.values() for entry in queue if entry.state == _WAITING
            ]
        for entry in waiting:
            self.remove(entry, PeerLost(STOPPING))
        if not self.in_thread():
            with self._lock:
                self._idle.wait_for(lambda: not self.turns, timeout)
        self._workers.close(timeout if not self.turns else 0.0)


def not_started() -> CallCancelled:
    """Of an entry that was cancelled before its turn."""
    return CallCancelled("the call was cancelled before it started")
