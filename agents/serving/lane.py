"""Lane: who may work with the served object now, in arrival order.

::

    turn       event                                 next
    -          slot free, nobody waits               running
    -          all slots taken                       waiting, behind the others
    waiting    a slot is left                        running (its thread goes on, or a worker starts it)
    waiting    removed, its time is over, closed     over, without having run
    running    left                                  over; the first that waits gets the slot

A thread that has a caller's connection waits for its turn and works by itself, without a thread hop;
work that came without a thread of its own is run by the lane's workers. With ``affine`` everything
is run by one worker, for drivers that insist on their thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ...protocol import limits
from ...protocol.errors import AgentClosed, CallCancelled, ConfigError, PeerLost, Refused
from ..dispatch import CLOSE_TIMEOUT, Executor

T = TypeVar("T")

STOPPING = "this agent is being stopped; the request was not executed"

_NEW, _WAITING, _RUNNING, _OVER = range(4)


class Turn:
    """One piece of work in a lane.

    Args:
        work: run by a worker when its turn comes; None for a thread that waits for its turn.
        refuse: called instead of ``work`` when the turn is over before it began.
    """

    __slots__ = ("gate", "reason", "refuse", "state", "work")

    def __init__(
        self, work: Callable[[], object] | None = None, refuse: Callable[[Exception], None] | None = None
    ) -> None:
        self.work = work
        self.refuse = refuse
        self.state = _NEW
        self.gate: threading.Lock | None = None
        self.reason: Exception | None = None

    def forget(self) -> None:
        """Let go of the work, which refers to this turn: a large content must not wait for the collector."""
        self.work = self.refuse = None


class Lane:
    """Slots and a queue; safe from any thread.

    Args:
        name: of the agent, for the threads' names.
        concurrency: turns that may run at the same time.
        affine: run everything in one and the same thread.

    Raises:
        ConfigError: for a concurrency below 1, or above 1 together with ``affine``.
    """

    def __init__(self, name: str, concurrency: int = 1, affine: bool = False) -> None:
        if concurrency < 1 or (affine and concurrency > 1):
            raise ConfigError(
                f"concurrency={concurrency} is not possible"
                + (" with thread_affine: one thread runs one call at a time" if concurrency > 1 else "")
            )
        self.affine = affine
        self._slots = self._free = concurrency
        self._lock = threading.Lock()
        self._waiting: deque[Turn] = deque()
        self._count = 0
        self._here = threading.local()
        self._idle = threading.Condition(self._lock)
        self._closed = False
        self._workers = Executor(f"pzc-lane {name}".strip(), threads=concurrency)

    def __len__(self) -> int:
        return self._count

    @property
    def running(self) -> int:
        """Turns that run now."""
        return self._slots - self._free

    def enter_now(self) -> bool:
        """Take a slot if one is free and nobody waits; `leave` gives it back."""
        with self._lock:
            if self._closed or not self._free or self._waiting:
                return False
            self._free -= 1
            return True

    def enter(self, turn: Turn, gone: Callable[[], bool] | None = None) -> None:
        """Wait for a turn of the calling thread; `leave` ends it.

        Args:
            turn: made for this.
            gone: asked every `lane_look` seconds; True when nobody wants the turn any more.

        Raises:
            CallCancelled: when it was removed.
            PeerLost: when the lane is being closed, or the sender is gone.
            Refused: when `lane_waiting` others wait.
        """
        if self.enter_now():
            turn.state = _RUNNING
            return
        with self._lock:
            if self._take_or_queue(turn):
                return
            gate = turn.gate = threading.Lock()
            gate.acquire()
        while not gate.acquire(timeout=limits.current.lane_look):
            if gone is not None and gone():
                self.remove(turn, PeerLost("its sender left before its turn; it was not executed"))
        if turn.reason is not None:
            raise turn.reason

    def submit(self, turn: Turn) -> None:
        """Run a turn's work in a worker when its time comes; errors as `enter`, without waiting."""
        with self._lock:
            if not self._take_or_queue(turn):
                return
        self._start(turn)

    def _take_or_queue(self, turn: Turn) -> bool:
        if self._closed:
            raise PeerLost(STOPPING)
        if self._free and not self._waiting:
            self._free -= 1
            turn.state = _RUNNING
            return True
        if self._count >= limits.current.lane_waiting:
            raise Refused("the lane of this agent is full: too many requests are waiting")
        turn.state = _WAITING
        self._waiting.append(turn)
        self._count += 1
        return False

    def _start(self, turn: Turn) -> None:
        if turn.gate is not None:
            turn.gate.release()
            return
        try:
            self._workers.submit(partial(self._work, turn))
        except AgentClosed:
            if turn.refuse is not None:
                turn.refuse(PeerLost(STOPPING))
            self.leave()

    def _work(self, turn: Turn) -> None:
        work = turn.work
        turn.forget()
        try:
            if work is not None:
                self.here(work)
        finally:
            self.leave()

    def here(self, work: Callable[[], T]) -> T:
        """Run work in the calling thread, which has entered."""
        self._here.depth = getattr(self._here, "depth", 0) + 1
        try:
            return work()
        finally:
            self._here.depth -= 1

    def in_thread(self) -> bool:
        """True when the calling thread runs a turn of this lane."""
        return getattr(self._here, "depth", 0) > 0

    def leave(self) -> None:
        """Give the slot to whoever waits longest."""
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.state == _WAITING:
                    self._count -= 1
                    turn.state = _RUNNING
                    break
            else:
                self._free += 1
                if self._closed:
                    self._idle.notify_all()
                return
        self._start(turn)

    def remove(self, turn: Turn, reason: Exception | None = None) -> bool:
        """End a turn that waits; False when it has not been entered yet, runs or is over."""
        with self._lock:
            if turn.state != _WAITING:
                return False
            turn.state = _OVER
            turn.reason = reason or CallCancelled("the call was cancelled before it started")
            self._count -= 1
            if self._count * 2 < len(self._waiting):  # what was removed leaves the queue by and by
                self._waiting = deque(other for other in self._waiting if other.state == _WAITING)
        self._end(turn)
        return True

    def _end(self, turn: Turn) -> None:
        if turn.gate is not None:
            turn.gate.release()
        elif turn.refuse is not None and turn.reason is not None:
            refuse = turn.refuse
            turn.forget()
            refuse(turn.reason)

    def run(self, function: Callable[[], object]) -> None:
        """Run a function in its turn, in a worker."""
        self.submit(Turn(function))

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Refuse what waits, and wait for what runs, at most ``timeout`` seconds."""
        with self._lock:
            self._closed = True
            waiting = [turn for turn in self._waiting if turn.state == _WAITING]
        for turn in waiting:
            self.remove(turn, PeerLost(STOPPING))
        if not self.in_thread():
            with self._lock:
                self._idle.wait_for(lambda: self.running == 0, timeout)
        self._workers.close(timeout if self.running == 0 else 0.0)
