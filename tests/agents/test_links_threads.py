from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from pzc.agents.notifications.links.arrivals import Urgency
from pzc.agents.notifications.links.granting import SPACING, Granting
from pzc.agents.notifications.links.hands import TAKE_OVER, Errand, Hands
from pzc.agents.notifications.links.leading import Leading
from pzc.transport import loop as loops
from pzc.transport.executor import Executor

from tests.contract.rigs.peers import TIMEOUT


def nothing() -> None:
    """Nobody is told, and nobody would lead."""


class Work:
    """Errands by hand, for hands."""

    def __init__(self) -> None:
        self.given: queue.SimpleQueue[list[Errand]] = queue.SimpleQueue()
        self.over, self.finished = threading.Event(), threading.Event()
        self.threads: list[threading.Thread] = []
        leading = Leading(self.over, nothing, nothing)
        self.hands = Hands("pzc-test hands", self.receive, self.over, self.finish, leading)

    def receive(self) -> deque[Errand]:
        return deque(self.given.get(timeout=TIMEOUT))

    def finish(self) -> None:
        self.threads.append(threading.current_thread())
        self.finished.set()

    def note(self) -> threading.Event:
        """An event, set by an errand that notes its thread."""
        event = threading.Event()

        def errand() -> None:
            self.threads.append(threading.current_thread())
            event.set()

        self.given.put([errand])
        return event


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    made.hands.start()
    yield made
    made.over.set()
    made.given.put([])
    assert made.finished.wait(TIMEOUT)
    assert made.hands.join(TIMEOUT)


def test_errands_run_in_the_thread_that_receives(work: Work) -> None:
    assert work.note().wait(TIMEOUT)
    assert work.note().wait(TIMEOUT)
    assert work.threads[0] is work.threads[1]
    assert not work.hands.in_thread()


def test_an_errand_that_raises_ends_nothing(work: Work) -> None:
    work.given.put([lambda: 1 / 0])
    assert work.note().wait(TIMEOUT)


def test_an_errand_that_takes_long_while_no_thread_is_left_holds_its_link_up_and_ends_nothing(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, entered = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        assert opened.wait(TIMEOUT)

    def none_left(self: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    work.given.put([wait])
    assert entered.wait(TIMEOUT)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        work.hands.look(time.monotonic() + 2 * TAKE_OVER)
    opened.set()
    assert work.note().wait(TIMEOUT)


def test_an_errand_that_takes_long_is_left_to_its_thread(work: Work) -> None:
    opened, entered = threading.Event(), threading.Event()
    order: list[int] = []

    def wait() -> None:
        work.threads.append(threading.current_thread())
        entered.set()
        assert opened.wait(TIMEOUT)

    try:
        work.given.put([wait, lambda: order.append(1)])
        assert entered.wait(TIMEOUT)
        work.hands.look(float("inf"))
        assert work.note().wait(TIMEOUT)
        assert order == [1]
        assert work.threads[0] is not work.threads[1]
    finally:
        opened.set()
    work.threads[0].join(TIMEOUT)
    assert not work.threads[0].is_alive()
    assert work.threads[1].is_alive()


def test_an_errand_that_has_not_taken_long_stays_where_it_is(work: Work) -> None:
    entered, opened = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        assert opened.wait(TIMEOUT)

    work.given.put([wait])
    try:
        assert entered.wait(TIMEOUT)
        work.hands.look(TAKE_OVER / 2)
        count = sum(thread.name == "pzc-test hands" for thread in threading.enumerate())
        assert count == 1
    finally:
        opened.set()


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
        self.granting = Granting(self.timers, self.tell)  # pyright: ignore[reportArgumentType]

    def tell(self, always: bool) -> bool:
        self.told.append(always)
        return self.takes


def test_urgent_news_are_told_at_once_each_time() -> None:
    told = Told()
    for _ in range(3):
        told.granting.news(Urgency.NOW)
    assert told.told == [False] * 3


def test_news_for_later_are_told_together_by_a_timer() -> None:
    told = Told()
    for _ in range(3):
        told.granting.news(Urgency.LATER)
    assert told.told == []
    assert [delay for delay, _ in told.timers.due] == [SPACING]
    told.timers.run_out()
    assert told.told == [False]
    told.granting.news(Urgency.LATER)
    assert len(told.timers.due) == 1


def test_the_first_news_after_silence_are_told_at_once() -> None:
    told = Told()
    told.granting.news(Urgency.SOON)
    assert told.told == [False]


def test_what_cannot_be_told_now_is_told_by_a_timer() -> None:
    told = Told()
    told.takes = False
    told.granting.say(always=True)
    told.takes = True
    told.timers.run_out()
    assert told.told == [True, False]
    assert told.timers.due == []


def test_the_timer_is_the_one_of_the_loop() -> None:
    loop, event = loops.acquire(), threading.Event()
    try:
        Granting(loop, lambda _: event.set() or True).news(Urgency.LATER)
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
