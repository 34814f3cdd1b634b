from __future__ import annotations

import contextlib
import gc
import logging
import queue
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from functools import partial

import pytest

from pzc import AgentClosed
from pzc.transport.executor import CALLBACK_TURN, Divisible, Executor, InOrder

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT, run_threads


@pytest.fixture
def executor() -> Iterator[Executor]:
    made = Executor("pzc-test", bound=10)
    yield made
    made.close()


class Gate:
    """A function that says when it started and waits to be let through."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.opened.wait(TIMEOUT)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


def _fail() -> None:
    raise ValueError("a function failed")


def test_functions_run_in_the_order_in_which_they_came(executor: Executor, gate: Gate) -> None:
    order: queue.SimpleQueue[int] = queue.SimpleQueue()
    executor.submit(gate)
    for number in range(9):
        executor.submit(partial(order.put, number))
    gate.opened.set()
    assert [order.get(timeout=TIMEOUT) for _ in range(9)] == list(range(9))


def test_functions_run_one_at_a_time_in_one_thread() -> None:
    executor, names = Executor("pzc-test"), []
    inside = threading.Lock()
    overlaps: list[int] = []

    def work() -> None:
        if not inside.acquire(blocking=False):
            overlaps.append(1)
            return
        names.append(threading.get_ident())
        inside.release()

    run_threads(*[lambda: [executor.submit(work) for _ in range(500)]] * 4)
    done = threading.Event()
    executor.submit(done.set)
    assert done.wait(TIMEOUT)
    executor.close()
    assert not overlaps
    assert len(names) == 2_000
    assert len(set(names)) == 1


def test_several_threads_run_as_many_functions_at_once_and_no_more() -> None:
    executor, meeting = Executor("pzc-test", threads=3), threading.Barrier(3)
    inside, most, guard, done = 0, [0], threading.Lock(), threading.Semaphore(0)

    def work() -> None:
        nonlocal inside
        with guard:
            inside += 1
            most[0] = max(most[0], inside)
        meeting.wait(TIMEOUT)
        with guard:
            inside -= 1
        done.release()

    for _ in range(9):
        executor.submit(work)
    assert all(done.acquire(timeout=TIMEOUT) for _ in range(9))
    assert executor.close()
    assert most == [3]


def test_what_is_abandoned_is_given_back_and_not_run(executor: Executor, gate: Gate) -> None:
    executor.submit(gate)
    assert gate.entered.wait(TIMEOUT)
    executor.submit(_fail)
    assert executor.abandon() == [_fail]
    gate.opened.set()
    assert executor.close()
    assert executor.errors == 0


def test_a_full_queue_refuses_and_counts(executor: Executor, gate: Gate) -> None:
    executor.submit(gate)
    assert gate.entered.wait(TIMEOUT)
    assert all(executor.submit(_fail) for _ in range(10))
    assert not executor.submit(_fail)
    assert not executor.submit(_fail)
    assert (len(executor), executor.refused) == (10, 2)


def test_a_function_that_raises_is_logged_and_counted_and_the_next_one_runs(
    executor: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    done = threading.Event()
    with caplog.at_level(logging.ERROR, "pzc.dispatch"):
        executor.submit(_fail)
        executor.submit(done.set)
        assert done.wait(TIMEOUT)
    assert executor.errors == 1
    assert [record.name for record in caplog.records] == ["pzc.dispatch"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_even_an_exit_ends_one_function_only(executor: Executor, error: type[BaseException]) -> None:
    done = threading.Event()

    def leave() -> None:
        raise error

    executor.submit(leave)
    executor.submit(done.set)
    assert done.wait(TIMEOUT)
    assert executor.errors == 1


def test_a_function_may_submit_another(executor: Executor) -> None:
    done = threading.Event()
    executor.submit(lambda: executor.submit(done.set))
    assert done.wait(TIMEOUT)


def test_after_close_nothing_is_accepted_and_closing_again_is_harmless(executor: Executor) -> None:
    assert executor.close()
    assert executor.close()
    with pytest.raises(AgentClosed, match="pzc-test is closed"):
        executor.submit(_fail)


def test_close_forgets_what_is_waiting(executor: Executor, gate: Gate) -> None:
    ran = threading.Event()
    executor.submit(gate)
    executor.submit(ran.set)
    assert gate.entered.wait(TIMEOUT)
    closing = threading.Thread(target=executor.close)
    closing.start()
    with contextlib.suppress(AgentClosed):
        while True:
            executor.submit(ran.set)
    gate.opened.set()
    closing.join(TIMEOUT)
    assert not ran.is_set()


def test_close_waits_for_the_function_that_runs(executor: Executor, gate: Gate) -> None:
    executor.submit(gate)
    assert gate.entered.wait(TIMEOUT)
    assert not executor.close(timeout=0.01)
    gate.opened.set()
    assert executor.close(timeout=TIMEOUT)


def test_close_from_inside_does_not_wait_for_itself(executor: Executor) -> None:
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
    executor.submit(lambda: answers.put(executor.close()))
    assert answers.get(timeout=TIMEOUT)


def test_a_function_that_has_run_is_not_kept(executor: Executor) -> None:
    class Large:
        def work(self) -> None:
            done.set()

    done, large = threading.Event(), Large()
    gone = threading.Event()
    weakref.finalize(large, gone.set)
    executor.submit(large.work)
    assert done.wait(TIMEOUT)
    del large
    gc.collect()
    assert gone.wait(TIMEOUT)


@pytest.fixture
def relieved() -> Iterator[Executor]:
    made = Executor("pzc-test", bound=10, spare=2)
    yield made
    made.close()


class Shared(Divisible, eq=False):
    """Takes gates, one after another."""

    def __call__(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self.left.popleft()()


def test_a_function_that_stalls_holds_up_no_other(relieved: Executor, gate: Gate) -> None:
    done = threading.Event()
    relieved.submit(gate)
    relieved.submit(done.set)
    assert done.wait(TIMEOUT)
    assert not gate.opened.is_set()


def test_no_more_functions_stall_side_by_side_than_there_are_spare_threads(relieved: Executor) -> None:
    gates, done = [Gate() for _ in range(3)], threading.Event()
    try:
        for each in gates:
            relieved.submit(each)
        relieved.submit(done.set)
        assert all(each.entered.wait(TIMEOUT) for each in gates)
        assert not done.wait(10 * CALLBACK_TURN)
        gates[0].opened.set()
        assert done.wait(TIMEOUT)
    finally:
        for each in gates:
            each.opened.set()


@pytest.mark.parametrize("here", [False, True])
def test_what_is_left_of_a_function_that_stalls_is_done_by_another_thread(
    relieved: Executor, gate: Gate, here: bool
) -> None:
    other = Gate()
    shared = Shared(deque((gate, other)))
    begin = partial(relieved.run_here, shared, shared) if here else partial(relieved.submit, shared)
    thread = threading.Thread(target=begin)
    thread.start()
    assert gate.entered.wait(TIMEOUT)
    assert other.entered.wait(TIMEOUT)
    gate.opened.set()
    other.opened.set()
    thread.join(TIMEOUT)
    assert relieved.close(TIMEOUT)


def test_after_a_function_that_stalls_the_executor_is_free_for_one_in_its_place(
    relieved: Executor, gate: Gate
) -> None:
    done = threading.Event()
    relieved.submit(gate)
    relieved.submit(done.set)
    assert done.wait(TIMEOUT)
    here = threading.Event()
    while not relieved.run_here(here.set):  # until the function before has ended
        assert not gate.opened.is_set()
    assert here.is_set()


def test_close_waits_for_a_function_that_stalls(relieved: Executor, gate: Gate) -> None:
    done = threading.Event()
    relieved.submit(gate)
    relieved.submit(done.set)
    assert done.wait(TIMEOUT)
    assert not relieved.close(timeout=0.01)
    gate.opened.set()
    assert relieved.close(timeout=TIMEOUT)


def test_functions_in_order_run_on_when_the_executor_has_no_room_for_the_next(executor: Executor) -> None:
    in_order, first = InOrder(executor), Gate()
    order: queue.SimpleQueue[int] = queue.SimpleQueue()
    assert in_order.submit(first)
    assert first.entered.wait(TIMEOUT)
    for number in range(3):
        assert in_order.submit(partial(order.put, number))
    while executor.submit(_nothing):
        pass
    first.opened.set()
    assert [order.get(timeout=TIMEOUT) for _ in range(3)] == [0, 1, 2]


def test_a_function_in_order_is_refused_when_the_executor_has_no_room(executor: Executor, gate: Gate) -> None:
    in_order = InOrder(executor)
    executor.submit(gate)
    assert gate.entered.wait(TIMEOUT)
    while executor.submit(_nothing):
        pass
    assert not in_order.submit(_fail)
    gate.opened.set()
    called = threading.Event()
    wait_until(lambda: in_order.submit(called.set))
    assert called.wait(TIMEOUT)


def test_functions_in_order_run_on_behind_one_that_fails(executor: Executor) -> None:
    in_order, called = InOrder(executor), threading.Event()
    in_order.submit(_fail)
    in_order.submit(called.set)
    assert called.wait(TIMEOUT)


def _nothing() -> None:
    pass
