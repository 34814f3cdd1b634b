from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from pzc.agents.notifications.links.reception import Call, Errand, Reception
from pzc.agents.notifications.links.reports import SPACING, AcknowledgementScheduler
from pzc.transport import loops
from pzc.transport.executor import Executor
from pzc.transport.loop import Loop

from tests.contract.rigs.peers import TIMEOUT


class Work:
    """Errands and calls by hand, for a reception."""

    def __init__(self) -> None:
        self.loop = Loop("pzc-test")
        self.given: deque[list[Errand]] = deque()
        self.threads: list[threading.Thread] = []
        self.reception = Reception(self.loop, self.receive)

    def receive(self) -> bool:
        if not self.given:
            return False
        self.reception.errands += self.given.popleft()
        return True

    def give(self, *calls: Call) -> None:
        """One errand for each."""
        self.given.append([lambda call=call: call for call in calls])
        self.reception.look()

    def noting(self) -> tuple[threading.Event, Call]:
        """An event, and a call that sets it and notes its thread."""
        event = threading.Event()

        def call() -> None:
            self.threads.append(threading.current_thread())
            event.set()

        return event, call

    def note(self) -> threading.Event:
        event, call = self.noting()
        self.give(call)
        return event


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.loop.end()


class Stall:
    """A call that stalls until it is let go of."""

    def __init__(self) -> None:
        self.entered, self.opened, self.left = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self.entered.set()
        assert self.opened.wait(TIMEOUT)
        self.left.set()


@pytest.fixture
def stall() -> Iterator[Stall]:
    made = Stall()
    yield made
    made.opened.set()


def test_calls_are_made_in_the_thread_that_receives(work: Work) -> None:
    assert work.note().wait(TIMEOUT)
    assert work.note().wait(TIMEOUT)
    assert work.threads[0] is work.threads[1]
    assert work.threads[0] is not threading.current_thread()


def test_a_call_that_raises_ends_nothing(work: Work) -> None:
    event, call = work.noting()
    work.give(lambda: 1 / 0, call)
    assert event.wait(TIMEOUT)


def test_what_is_put_into_inboxes_is_put_there_in_order_although_a_thread_is_held_up(
    work: Work, stall: Stall
) -> None:
    order = list[int]()
    event, call = work.noting()

    def first() -> Call:
        stall()
        order.append(1)
        return bool

    def second() -> Call:
        order.append(2)
        return call

    work.given.append([first, second])
    work.reception.look()
    assert stall.entered.wait(TIMEOUT)
    for _ in range(2):  # by then another thread is the receiver
        work.loop.run(lambda: None)
    assert not order
    stall.opened.set()
    assert event.wait(TIMEOUT)
    assert order == [1, 2]


def test_a_call_that_stalls_is_left_to_its_thread_and_what_is_left_is_done_at_once(
    work: Work, stall: Stall
) -> None:
    event, call = work.noting()
    work.give(stall, call)
    assert event.wait(TIMEOUT)
    assert work.note().wait(TIMEOUT)
    assert not stall.left.is_set()
    assert stall.thread not in work.threads
    stall.opened.set()
    stall.thread.join(TIMEOUT)
    assert not stall.thread.is_alive()


def test_what_stalls_on_one_link_does_not_delay_another(work: Work, stall: Stall) -> None:
    other = threading.Event()
    work.give(stall)
    assert stall.entered.wait(TIMEOUT)
    work.loop.call(other.set)
    assert other.wait(TIMEOUT)
    assert not stall.left.is_set()


def test_while_a_message_is_taken_nothing_else_of_the_link_is_and_then_it_goes_on(
    work: Work, stall: Stall
) -> None:
    taken = list[threading.Thread]()

    def receive() -> bool:
        taken.append(threading.current_thread())
        reception.step_aside()
        if len(taken) == 1:
            stall()
        return False

    reception = Reception(work.loop, receive)
    reception.look()
    assert stall.entered.wait(TIMEOUT)
    reception.look()
    work.loop.run(lambda: None)
    work.loop.run(lambda: None)
    assert len(taken) == 1
    stall.opened.set()
    stall.thread.join(TIMEOUT)
    work.loop.run(lambda: None)
    work.loop.run(lambda: None)
    assert len(taken) == 2
    assert taken[0] is not taken[1]


def test_what_brings_nothing_to_be_done_has_nobody_stand_by(work: Work) -> None:
    work.given.append([])
    work.reception.look()
    work.loop.run(lambda: None)
    assert not work.given
    assert work.loop._stand_by is None
    assert work.note().wait(TIMEOUT)
    assert work.loop._stand_by is not None


class Timers:
    """A loop whose timers a test lets run out."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], object]]] = []

    def call_later(self, delay: float, function: Callable[[], object]) -> None:
        self.due.append((delay, function))

    def run_out(self) -> None:
        due, self.due = self.due, []
        for _, function in due:
            function()


class Told:
    """What a publisher is told."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.told: list[bool] = []
        self.takes = True
        self.acknowledging = AcknowledgementScheduler(self.timers, self.tell)  # pyright: ignore[reportArgumentType]

    def tell(self, always: bool) -> bool:
        self.told.append(always)
        return self.takes


def test_urgent_news_are_told_at_once_each_time() -> None:
    told = Told()
    for _ in range(3):
        told.acknowledging.news(True)
    assert told.told == [False] * 3


def test_news_for_later_are_told_together_by_a_timer() -> None:
    told = Told()
    for _ in range(3):
        told.acknowledging.news(False)
    assert told.told == []
    assert [delay for delay, _ in told.timers.due] == [SPACING]
    told.timers.run_out()
    assert told.told == [False]
    told.acknowledging.news(False)
    assert len(told.timers.due) == 1


def test_what_cannot_be_told_now_is_told_by_a_timer() -> None:
    told = Told()
    told.takes = False
    told.acknowledging.say(always=True)
    told.takes = True
    told.timers.run_out()
    assert told.told == [True, False]
    assert told.timers.due == []


def test_the_timer_is_the_one_of_the_loop() -> None:
    loop, event = loops.acquire(), threading.Event()
    try:
        AcknowledgementScheduler(loop, lambda _: event.set() or True).news(False)
        assert event.wait(TIMEOUT)
    finally:
        loops.release(loop)


def test_an_idle_executor_lets_the_caller_run_a_function(executor: Executor) -> None:
    ran: list[bool] = []
    assert executor.run_here(lambda: ran.append(executor.in_thread()))
    assert ran == [True]
    assert not executor.in_thread()


def test_a_busy_executor_does_not(executor: Executor) -> None:
    opened, entered = threading.Event(), threading.Event()
    executor.submit(lambda: (entered.set(), opened.wait(TIMEOUT)))
    assert entered.wait(TIMEOUT)
    try:
        assert not executor.run_here(lambda: pytest.fail("it ran"))
    finally:
        opened.set()


def test_nothing_else_runs_while_the_caller_runs_a_function(executor: Executor) -> None:
    order: queue.SimpleQueue[str] = queue.SimpleQueue()
    done = threading.Event()

    def here() -> None:
        executor.submit(lambda: (order.put("queued"), done.set()))
        assert not executor.run_here(lambda: order.put("inside"))
        order.put("here")

    assert executor.run_here(here)
    assert done.wait(TIMEOUT)
    assert [order.get(), order.get()] == ["here", "queued"]


def test_a_closed_executor_runs_nothing_in_the_caller(executor: Executor) -> None:
    executor.close()
    assert not executor.run_here(lambda: pytest.fail("it ran"))
