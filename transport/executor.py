"""Executor: threads that run functions in arrival order.

Callback delivery is made of it, and the workers of a lane. The queue is bounded: a full one
refuses, it never grows. A thread starts when a function finds none idle, and ends at `close`.

With ``spare`` threads a function that stalls holds up no other one. One function::

    state    event                                                   next
    waiting  no more than ``threads`` - 1 run                        running
    running  it returns                                              over: the next one runs
    running  for `callback_turn` seconds, and fewer than         stalled: the next one runs, and what
             ``spare`` are stalled                                   is `left` of it
    stalled  it returns                                              over

Someone has to look at the time meanwhile: an idle thread does while something waits, or is left, and until
nothing has run for `io_stand_by` seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from msgspec import Struct

from ..protocol.errors import AgentClosed, LocalLimit
from .threads import Condition, begin

STALLED_CALLBACKS = 32
"""Callbacks of one agent, and slots of one proxy, that may be slow side by side."""

QUICK_CALL = 0.001
"""Seconds within which a quick request is answered and a quick callback returns."""

QUICK_PROOFS = 3
"""Times in succession that it must have been so before the thread that brings the next one does it."""

CALLBACK_TURN = 0.005
"""Seconds after which a callback lets others have their turn, or others are called beside a slow one."""

IO_STAND_BY = 0.1
"""Seconds without such an absence after which the thread that stands by goes to sleep."""


logger = logging.getLogger("pzc.dispatch")

CLOSE_TIMEOUT = 2.0
"""Seconds that `Executor.close` waits for a running function before it leaves it behind."""

NO_THREAD = 0.25
"""Seconds until a thread is asked for again where none was left."""


class Divisible(Struct, eq=False):
    """A function that several threads may call side by side, each for a part of what is left of it."""

    __call__: ClassVar[Callable[..., object]]
    left: deque[Any]


class _Run(Struct, eq=False):
    """One function that runs."""

    function: Callable[[], object]
    since: float
    stalled: bool = False


class Executor:
    """Runs functions in daemon threads; with one thread, one at a time.

    Args:
        name: of the threads.
        bound: most functions waiting.
        threads: most threads.
        spare: most threads more, for functions that stall; needs one thread.
    """

    def __init__(self, name: str, bound: int = 100_000, threads: int = 1, spare: int = 0) -> None:
        self._name = name
        self._bound = bound
        self._most = threads
        self._spare = spare
        self._waiting: deque[Callable[[], object]] = deque()
        self._lock = threading.RLock()
        self._changed = Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._active = 0  # functions that run and are not stalled
        self._stalled = 0
        self._run: _Run | None = None  # the one that began last, while it is not stalled
        self._watched = False  # an idle thread looks at the time
        self._here = list[int]()  # numbers of the threads that run a function in the executor's place
        self._closed = False
        self.refused = 0
        self.errors = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, function: Callable[[], object]) -> bool:
        """Queue a function; False, and counted, when the queue is full.

        Raises:
            AgentClosed: after `close`.
            LocalLimit: when there is no thread for it.
        """
        with self._changed:
            if self._closed:
                raise AgentClosed(f"{self._name} is closed")
            if len(self._waiting) >= self._bound:
                self.refused += 1
                return False
            self._waiting.append(function)
            try:
                self._wake()
            except LocalLimit:  # no thread is left
                if not self._threads:
                    self._waiting.pop()
                    raise
            return True

    def _wake(self) -> None:
        """Something waits: see that a thread takes it, or looks whether what runs stalls."""
        if self._spare and self._active:
            if not self._watched:
                self._call_watch()
        elif self._idle < len(self._waiting) and len(self._threads) < self._most + self._stalled:
            self._start_thread()
        else:
            self._changed.notify()

    def _call_watch(self) -> None:
        if self._idle:
            self._changed.notify()
        elif len(self._threads) <= self._most + self._spare:
            self._start_thread()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        begin(thread)
        self._threads.append(thread)

    def abandon(self) -> list[Callable[[], object]]:
        """Take back what is waiting; nothing more is accepted and each thread ends after its function."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        return waiting

    def run_here(self, function: Callable[[], object], divisible: Divisible | None = None) -> bool:
        """Run a function in the calling thread, in place of the executor's own; False when it is busy.

        For an executor of one thread: until the function has ended, or stalls, nothing else runs.

        Args:
            function: is called once.
            divisible: others may take from it what is left of the function.
        """
        here = threading.get_ident()
        with self._lock:
            if self._closed or self._waiting or self._active:
                return False
            run = self._begin(divisible or function)
            self._here.append(here)
        try:
            function()
        finally:
            with self._lock:
                self._here.remove(here)
                self._end(run)
                if self._waiting or self._closed:  # else nobody waits for this end, but who is idle
                    self._changed.notify_all()
        return True

    def in_thread(self) -> bool:
        """True when the caller is one of the executor's threads, or runs a function in their place."""
        return threading.get_ident() in self._here or threading.current_thread() in self._threads

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Forget what is waiting and end the threads; False when a function still runs."""
        self.abandon()
        if self.in_thread():
            return True
        deadline = time.monotonic() + timeout
        threads = self._threads.copy()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            over = self._changed.wait_for(lambda: not self._here, max(0.0, deadline - time.monotonic()))
        return over and not any(thread.is_alive() for thread in threads)

    def _begin(self, function: Callable[[], object]) -> _Run:
        self._active += 1
        run = self._run = _Run(function, time.monotonic())
        shared = isinstance(function, Divisible) and len(function.left) > 1
        if self._spare and not self._watched and (self._waiting or shared):
            with suppress(LocalLimit):  # no thread is left: whatever stalls holds up the others
                self._call_watch()
        return run

    def _end(self, run: _Run) -> None:
        if run.stalled:
            self._stalled -= 1
        else:
            self._active -= 1
            if self._run is run:
                self._run = None

    def _look(self, now: float) -> float:
        """Let others go on beside what stalls; returns the seconds until that is to be looked at again."""
        run, patience = self._run, CALLBACK_TURN
        if run is None or self._stalled >= self._spare:
            return patience
        if now - run.since < patience:
            return run.since + patience - now
        run.stalled = True
        self._stalled += 1
        self._active -= 1
        self._run = None
        if isinstance(run.function, Divisible) and run.function.left:
            self._waiting.appendleft(run.function)
        return 0.0

    def _watch(self) -> None:
        """Wait, at most until what runs might stall, or nothing has run for a while."""
        self._watched = True
        quiet, patience = IO_STAND_BY, CALLBACK_TURN
        last, since = self._run, time.monotonic()
        while not self._closed and not (self._waiting and self._active < self._most):
            now = time.monotonic()
            left = self._look(now)
            if self._run is not last:
                last, since = self._run, now
            elif last is None and now - since >= quiet:
                break
            self._changed.wait(max(min(left, patience), 0.0002))
        self._watched = False

    def _next(self) -> _Run | None:
        """What is to be run next; None at the end of the thread."""
        with self._changed:
            self._idle += 1
            while not self._closed:
                if self._waiting and self._active < self._most:
                    self._idle -= 1
                    return self._begin(self._waiting.popleft())
                if self._spare and self._run is not None and not self._watched:
                    self._watch()
                else:
                    self._changed.wait()
            self._idle -= 1
            return None

    def _work(self) -> None:
        while True:
            run = self._next()
            if run is None:
                return
            try:
                run.function()
            except BaseException:  # even SystemExit may end one function only
                self.errors += 1
                logger.exception("a function of %s failed", self._name)
            with self._lock:
                self._end(run)
            del run  # what it holds may be large, and the next may be long in coming


class InOrder:
    """Functions that an executor runs one at a time: while one of them stalls, the others wait for it.

    Args:
        executor: runs them.
        bound: most functions waiting.
    """

    def __init__(self, executor: Executor, bound: int = 10_000) -> None:
        self._executor = executor
        self._bound = bound
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], object]] = deque()
        self._begun = False

    def submit(self, function: Callable[[], object]) -> bool:
        """Run it behind the others; False when too many wait. Raises as `Executor.submit`."""
        with self._lock:
            if len(self._waiting) >= self._bound:
                return False
            if not self._begun:
                self._begun = self._executor.submit(self._next)
            if self._begun:
                self._waiting.append(function)
            return self._begun

    def _next(self) -> None:
        """Run one; all the others as well while the executor has no room for them."""
        with self._lock:  # whoever began this has not added its function before
            function = self._waiting.popleft()
        while True:
            try:
                function()
            except BaseException:  # as above
                logger.exception("a function failed; the next ones run")
            with self._lock:
                self._begun = bool(self._waiting)
                if not self._begun or self._handed_on():
                    return
                function = self._waiting.popleft()

    def _handed_on(self) -> bool:
        try:
            return self._executor.submit(self._next)
        except AgentClosed:
            return True
