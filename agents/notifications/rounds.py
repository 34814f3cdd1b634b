"""Rounds: one turn of an executor for all subscriptions whose callbacks are to be called there.

::

    state     event                                                next
    made      start, all are quick and the executor is idle        running, in the calling thread
    made      start, else                                          waiting: submitted
    waiting   the executor's turn                                  running
    running   each was called: until it is slow for once,          over
              `callback_turn` has passed or nothing is pending; nothing is left
    running   something is left                                    waiting: what else the executor has
                                                                   to do comes first
    any       the executor is full, or closed                      over: the next arrival starts anew
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Protocol

from ...protocol import limits
from ...protocol.errors import AgentClosed
from ...transport.executor import Executor


class Called(Protocol):
    """Something with a callback: a subscription."""

    executor: Executor

    @property
    def is_quick(self) -> bool:
        """True when its callback has been quick of late."""
        ...

    def call_pending(self, until: float) -> bool:
        """Call for what is pending, until a monotonic time; True when some is left."""
        ...

    def rest(self) -> None:
        """Nobody will call: the next arrival asks for it anew."""
        ...


class Round:
    """Calls for several subscriptions of one executor; each is in one round at most.

    Args:
        executor: theirs.
        called: the first one.
    """

    __slots__ = ("_executor", "_waiting")

    def __init__(self, executor: Executor, called: Called) -> None:
        self._executor = executor
        self._waiting = deque((called,))

    def add(self, called: Called) -> None:
        """One more, before the start."""
        self._waiting.append(called)

    def start(self) -> None:
        """Begin as soon as it is the executor's turn."""
        try:
            if self._executor.submit(self._run):
                return
        except AgentClosed:
            pass
        for called in self._waiting:
            called.rest()

    def start_here(self) -> None:
        """As `start`, but call for those that are quick in this thread when nothing waits before them."""
        quick: deque[Called] = deque()
        others: list[Called] = []
        for called in self._waiting:
            (quick if called.is_quick else others).append(called)
        self._waiting = quick
        if quick:
            self._executor.run_here(self._call)
        if quick:  # all, or what is left
            self.start()
        for each in rounds(others) if others else ():
            each.start()

    def _call(self) -> None:
        waiting, until = self._waiting, monotonic() + limits.current.callback_turn
        for _ in range(len(waiting)):
            called = waiting.popleft()
            if called.call_pending(until):
                waiting.append(called)
            if monotonic() >= until:
                return

    def _run(self) -> None:
        while True:
            self._call()
            if not self._waiting:
                return
            try:
                if self._executor.submit(self._run):
                    return
            except AgentClosed:
                return


def rounds(ready: Iterable[Called]) -> Iterable[Round]:
    """One for each executor."""
    found: dict[Executor, Round] = {}
    for called in ready:
        executor = called.executor
        known = found.get(executor)
        if known is None:
            found[executor] = Round(executor, called)
        else:
            known.add(called)
    return found.values()


def start(called: Iterable[Called | None]) -> None:
    """Begin a round for each executor; None is nobody."""
    for each in rounds(one for one in called if one is not None):
        each.start()
