from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from pzc.agents.notifications.callbacks import Called, start, start_here
from pzc.transport.executor import QUICK_PROOFS, Executor

from tests.contract.rigs.peers import TIMEOUT


class Caller(Called):
    """Something to be called, that notes in which thread it was."""

    def __init__(self, executor: Executor, pending: int = 1, quick: bool = True) -> None:
        self.executor, self.pending = executor, pending
        self.proofs = QUICK_PROOFS if quick else 0
        self.called: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()
        self.rested = False

    def _opened(self, entry: object) -> None:
        """Nothing comes."""

    def call_pending(self, until: float) -> bool:
        self.pending -= 1
        self.called.put(threading.current_thread())
        return self.pending > 0

    def rest(self) -> None:
        self.rested = True


@pytest.fixture
def executor() -> Iterator[Executor]:
    made = Executor("pzc-test", bound=1)
    yield made
    made.close()


def test_those_of_one_executor_are_called_in_one_turn(executor: Executor) -> None:
    entered, gate, both = threading.Event(), threading.Event(), (Caller(executor), Caller(executor))

    def wait() -> None:
        entered.set()
        assert gate.wait(TIMEOUT)

    executor.submit(wait)
    assert entered.wait(TIMEOUT)
    start(both)  # there is room for one turn more
    gate.set()
    assert all(each.called.get(timeout=TIMEOUT) for each in both)


def test_the_quick_ones_are_called_in_the_calling_thread_and_the_others_are_not(executor: Executor) -> None:
    quick, other = Caller(executor), Caller(executor, quick=False)
    start_here((other, quick))
    assert quick.called.get(timeout=TIMEOUT) is threading.current_thread()
    assert other.called.get(timeout=TIMEOUT) is not threading.current_thread()


def test_what_is_left_after_one_call_each_is_called_for_by_the_executor(executor: Executor) -> None:
    here, there = threading.current_thread(), Caller(executor, pending=2)
    start_here((there,))
    threads = [there.called.get(timeout=TIMEOUT) for _ in range(2)]
    assert [thread is here for thread in threads] == [True, False]


def test_an_executor_that_is_busy_calls_for_the_quick_ones_itself(executor: Executor) -> None:
    entered, gate, quick = threading.Event(), threading.Event(), Caller(executor)

    def wait() -> None:
        entered.set()
        assert gate.wait(TIMEOUT)

    executor.submit(wait)
    assert entered.wait(TIMEOUT)
    start_here((quick,))
    assert quick.called.empty()
    gate.set()
    assert quick.called.get(timeout=TIMEOUT) is not threading.current_thread()


def test_those_whom_a_full_executor_cannot_call_may_ask_again(executor: Executor) -> None:
    entered, gate, late = threading.Event(), threading.Event(), Caller(executor)

    def wait() -> None:
        entered.set()
        assert gate.wait(TIMEOUT)

    executor.submit(wait)
    assert entered.wait(TIMEOUT)
    executor.submit(int)
    start_here((late,))
    assert late.rested
    gate.set()


def test_those_of_a_closed_executor_are_not_called(executor: Executor) -> None:
    executor.close()
    late = Caller(executor)
    start_here((late,))
    assert (late.rested, late.called.empty()) == (True, True)
