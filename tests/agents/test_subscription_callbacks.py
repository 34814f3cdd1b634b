from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

import pytest

from pzc import (
    Gap,
    Notification,
    Subscription,
    SubscriptionClosed,
    drop,
    latest,
)
from pzc.agents.notifications.callbacks import WAITING_GAPS
from pzc.transport.executor import QUICK_PROOFS, Executor

from tests.agents.subscriptions import EPOCH, Blocked, Make, feed, finish
from tests.contract.rigs.peers import TIMEOUT, Inbox, balance


def test_a_blocked_callback_and_drop_count_exactly(make: Make, executor: Executor, blocked: Blocked) -> None:
    subscription = make(blocked, drop(5))
    feed(subscription, 1, 1)
    assert blocked.entered.wait(TIMEOUT)
    feed(subscription, 2, 100)
    assert (subscription.received, subscription.dropped, subscription.pending) == (1, 94, 5)
    blocked.opened.set()
    assert blocked.contents(6) == [1, 2, 3, 4, 5, 6]
    assert (subscription.received, subscription.dropped, subscription.pending) == (6, 94, 0)


def test_a_blocked_callback_and_latest_count_exactly(make: Make, blocked: Blocked) -> None:
    subscription = make(blocked, latest(2))
    feed(subscription, 1, 1)
    assert blocked.entered.wait(TIMEOUT)
    feed(subscription, 2, 100)
    assert (subscription.received, subscription.dropped, subscription.pending) == (1, 97, 2)
    blocked.opened.set()
    assert blocked.contents(3) == [1, 99, 100]


def test_close_drops_and_counts_the_unread_ones(make: Make) -> None:
    subscription = make()
    feed(subscription, 1, 10)
    subscription.recv(0)
    subscription.close()
    assert (subscription.received, subscription.dropped, subscription.pending) == (1, 9, 0)
    with pytest.raises(SubscriptionClosed):
        subscription.recv(0)


def test_after_close_nothing_is_taken_and_nothing_counted(make: Make) -> None:
    subscription = make()
    subscription.close()
    feed(subscription, 1, 5)
    subscription.report_gap(Gap(EPOCH, 6, 9))
    assert balance(subscription) == 0
    assert subscription.gaps == []


def test_close_is_told_once(make: Make) -> None:
    told: list[Subscription] = []
    subscription = make(on_close=told.append)
    subscription.close()
    subscription.close()
    assert told == [subscription]
    assert subscription.closed


def test_a_subscription_is_closed_by_its_context(make: Make) -> None:
    with make() as subscription:
        assert not subscription.closed
    assert subscription.closed


def test_close_waits_for_the_callback_that_is_running(make: Make, blocked: Blocked) -> None:
    subscription = make(blocked)
    feed(subscription, 1, 1)
    assert blocked.entered.wait(TIMEOUT)
    closed = threading.Event()
    thread = threading.Thread(target=lambda: (subscription.close(), closed.set()))
    thread.start()
    with pytest.raises(SubscriptionClosed):
        subscription.recv(TIMEOUT)
    assert not closed.is_set()
    blocked.opened.set()
    assert closed.wait(TIMEOUT)
    thread.join(TIMEOUT)
    assert blocked.queue.qsize() == 1


def test_a_second_close_waits_for_the_running_callback_as_well(make: Make, blocked: Blocked) -> None:
    subscription = make(blocked)
    feed(subscription, 1, 1)
    assert blocked.entered.wait(TIMEOUT)
    subscription.end()
    finished: queue.SimpleQueue[int] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: (subscription.close(), finished.put(blocked.queue.qsize())))
    thread.start()
    blocked.opened.set()
    assert finished.get(timeout=TIMEOUT) == 1
    thread.join(TIMEOUT)


def test_a_callback_that_exits_ends_nothing_but_itself(make: Make) -> None:
    got = Inbox()

    def callback(notification: Notification) -> None:
        got(notification)
        raise SystemExit

    feed(make(callback), 1, 3)
    assert got.contents(3) == [1, 2, 3]


def test_subscriptions_take_turns(make: Make, executor: Executor) -> None:
    order: queue.SimpleQueue[str] = queue.SimpleQueue()
    gate = threading.Event()
    executor.submit(lambda: gate.wait(TIMEOUT))
    for name in "ab":
        subscription = make(lambda _, name=name: order.put(name))
        feed(subscription, 1, 3)
    gate.set()
    assert [order.get(timeout=TIMEOUT) for _ in range(6)] == ["a", "b"] * 3


def test_quick_callbacks_are_called_for_all_that_is_pending_in_one_turn(
    make: Make, executor: Executor
) -> None:
    order: queue.SimpleQueue[str] = queue.SimpleQueue()
    gate = threading.Event()
    executor.submit(lambda: gate.wait(TIMEOUT))
    for name in "ab":
        subscription = make(lambda _, name=name: order.put(name))
        subscription.proofs = QUICK_PROOFS
        feed(subscription, 1, 3)
    gate.set()
    assert [order.get(timeout=TIMEOUT) for _ in range(6)] == ["a"] * 3 + ["b"] * 3


def test_a_full_executor_delays_a_callback_and_does_not_end_it(make: Make) -> None:
    small, got, gate = Executor("pzc-small", bound=1), Inbox(), threading.Event()
    entered = threading.Event()
    try:
        subscription = make(got, thread=small)

        def wait() -> None:
            entered.set()
            gate.wait(TIMEOUT)

        small.submit(wait)
        assert entered.wait(TIMEOUT)
        small.submit(lambda: None)
        feed(subscription, 1, 1)
        assert small.refused == 1
        gate.set()
        finish_small = threading.Event()
        while not small.submit(finish_small.set):
            pass
        assert finish_small.wait(TIMEOUT)
        feed(subscription, 2, 2)
        assert got.contents(2) == [1, 2]
    finally:
        gate.set()
        small.close()


def test_a_closed_executor_harms_no_other_subscription(make: Make) -> None:
    gone, got = Executor("pzc-gone"), Inbox()
    gone.close()
    orphan, other = make(Inbox(), thread=gone), make(got)
    for subscription in (orphan, other):
        feed(subscription, 1, 1)
        subscription.on_gap = lambda gap: None
        subscription.report_gap(Gap(EPOCH, 2, 2))
    assert got.contents(1) == [1]
    assert balance(orphan) == 2


def test_a_loss_is_told_once(make: Make, executor: Executor) -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    subscription = make()
    subscription.on_lost = told.put
    subscription.report_lost("gone")
    subscription.report_lost("gone again")
    assert told.get(timeout=TIMEOUT) == "gone"
    finish(executor)
    assert told.empty()


def test_no_gap_and_no_loss_is_told_after_close(make: Make, executor: Executor) -> None:
    told: list[object] = []
    gate = threading.Event()
    executor.submit(lambda: gate.wait(TIMEOUT))
    subscription = make()
    subscription.on_gap = subscription.on_lost = told.append
    subscription.report_gap(Gap(EPOCH, 1, 1))
    subscription.report_lost("gone")
    subscription.close()
    gate.set()
    finish(executor)
    assert told == []


def test_more_gaps_than_may_wait_for_a_stalled_callback_are_logged_and_counted(
    make: Make, blocked: Blocked, caplog: pytest.LogCaptureFixture
) -> None:
    relieved, told = Executor("pzc-relieved", spare=1), queue.SimpleQueue[Gap]()
    try:
        subscription = make(blocked, drop(1), thread=relieved)
        subscription.on_gap = told.put
        feed(subscription, 1, 1)
        assert blocked.entered.wait(TIMEOUT)
        with caplog.at_level(logging.WARNING, "pzc.subscription"):
            feed(subscription, 2, 2 + WAITING_GAPS + 5)
            finish(relieved)
        assert len(caplog.records) == 5
        blocked.opened.set()
        assert sum(told.get(timeout=TIMEOUT).count for _ in range(WAITING_GAPS)) == WAITING_GAPS
        assert subscription.dropped == WAITING_GAPS + 5
    finally:
        blocked.opened.set()
        relieved.close()


class Unordered:
    """An executor that keeps what it is to run, so that a test may let its threads overtake one another."""

    def __init__(self) -> None:
        self.functions: list[Callable[[], object]] = []

    def submit(self, function: Callable[[], object]) -> bool:
        self.functions.append(function)
        return True


def test_gaps_are_told_in_order_although_threads_of_the_executor_overtake_one_another(make: Make) -> None:
    unordered, told = Unordered(), list[Gap]()
    subscription = make(thread=unordered)
    subscription.on_gap = told.append
    for number in (1, 3, 5):
        feed(subscription, number, number)
    for function in reversed(unordered.functions):
        function()
    assert [gap.first for gap in told] == [2, 4]
