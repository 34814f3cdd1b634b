"""A callback that stalls delays nobody else, and what is its own stays in order."""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Iterator

import pytest

from pzc import Agent, Gap, Notification, Server, Signal, Subscription, block, drop

from tests.contract.rigs.peers import TIMEOUT, Inbox, balance

MESSAGES = 1000
WAYS = ("inproc", "unix", "tcp")


class Stalled:
    """A callback that is stalled from its ``first`` call on until it is let go of."""

    def __init__(self, first: int = 1) -> None:
        self.first, self.entered, self.opened = first, threading.Event(), threading.Event()
        self.numbers: list[int] = []
        self.done: queue.SimpleQueue[int] = queue.SimpleQueue()

    def __call__(self, notification: Notification) -> None:
        self.numbers.append(notification.sequence)
        if len(self.numbers) >= self.first:
            self.entered.set()
            assert self.opened.wait(TIMEOUT)
        self.done.put(notification.sequence)


@pytest.fixture
def stalled() -> Iterator[Stalled]:
    made = Stalled()
    yield made
    made.opened.set()


@pytest.fixture
def publisher() -> Iterator[Agent]:
    with Agent() as made:
        yield made


@pytest.fixture
def reader() -> Iterator[Agent]:
    with Agent() as made:
        yield made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [1, 3], ids=["one", "three"])
def test_while_callbacks_stall_the_others_of_their_agent_go_on(
    publisher: Agent, reader: Agent, stalled: Stalled, way: str, count: int
) -> None:
    for _ in range(count):
        reader.subscribe(publisher.rep_endpoint, "slow", stalled, transport=way)
    got = Inbox()
    reader.subscribe(publisher.rep_endpoint, "other", got, transport=way, policy=block())
    publisher.publish("slow", 0)
    assert stalled.entered.wait(TIMEOUT)
    for number in range(MESSAGES):
        publisher.publish("other", number)
    assert got.contents(MESSAGES) == list(range(MESSAGES))
    assert len(stalled.numbers) == count


@pytest.mark.parametrize("way", WAYS)
def test_a_callback_that_was_quick_and_stalls_holds_up_no_other_subscription_to_its_topic(
    publisher: Agent, reader: Agent, way: str
) -> None:
    stalled, here, there = Stalled(first=10), Inbox(), Inbox()
    with Agent() as other:
        try:
            for agent, callback in ((reader, stalled), (reader, here), (other, there)):
                agent.subscribe(publisher.rep_endpoint, "t", callback, transport=way)
            for number in range(200):
                publisher.publish("t", number)
                assert (here.next().content, there.next().content) == (number, number)
            assert len(stalled.numbers) == 10
        finally:
            stalled.opened.set()


def test_a_stalled_callback_delays_the_others_of_its_agent_by_less_than_10_ms(
    publisher: Agent, reader: Agent
) -> None:
    stalled, late = Stalled(first=10), list[float]()
    arrived: queue.SimpleQueue[int] = queue.SimpleQueue()

    def note(notification: Notification) -> None:
        late.append(time.monotonic() - notification.content)
        arrived.put(notification.sequence)

    for topic, callback in (("slow", stalled), ("other", note)):
        reader.subscribe(publisher.rep_endpoint, topic, callback, transport="unix")
    try:
        for _ in range(MESSAGES):
            publisher.publish("slow", 0)
            publisher.publish("other", time.monotonic())
            arrived.get(timeout=TIMEOUT)
        assert stalled.entered.is_set()
        assert statistics.quantiles(late, n=100)[97] < 0.01
    finally:
        stalled.opened.set()


def test_what_a_stalled_callback_is_called_for_stays_in_order_and_nothing_is_lost(
    publisher: Agent, reader: Agent
) -> None:
    stalled, got = Stalled(), Inbox()
    slow = reader.subscribe(publisher.rep_endpoint, "slow", stalled, policy=drop(MESSAGES))
    reader.subscribe(publisher.rep_endpoint, "other", got)
    for number in range(100):
        publisher.publish("slow", number)
        publisher.publish("other", number)
    assert got.contents(100) == list(range(100))
    stalled.first = MESSAGES
    stalled.opened.set()
    publisher.publish("slow", 100)
    assert [stalled.done.get(timeout=TIMEOUT) for _ in range(101)] == list(range(1, 102))
    assert stalled.numbers == list(range(1, 102))
    assert (balance(slow), slow.dropped) == (101, 0)


def test_of_one_subscription_nothing_is_called_beside_its_callback(publisher: Agent, reader: Agent) -> None:
    stalled, got = Stalled(), Inbox()
    told: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    slow = reader.subscribe(publisher.rep_endpoint, "slow", stalled, policy=drop(1))
    slow.on_gap = told.put
    reader.subscribe(publisher.rep_endpoint, "other", got)
    for number in range(MESSAGES):  # more gaps than threads would be there for them
        publisher.publish("slow", number)
        publisher.publish("other", number)
        got.next()
    assert told.empty()
    stalled.first = MESSAGES
    stalled.opened.set()
    lost = 0
    while lost < MESSAGES - 2:
        lost += told.get(timeout=TIMEOUT).count
    assert balance(slow) == MESSAGES


def test_a_callback_may_close_a_subscription_whose_callback_runs(
    publisher: Agent, reader: Agent, stalled: Stalled
) -> None:
    slow = reader.subscribe(publisher.rep_endpoint, "slow", stalled)
    running: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def close(_: Notification) -> None:
        closing = threading.Timer(0.0, stalled.opened.set)
        closing.start()
        slow.close()
        running.put(stalled.opened.is_set())

    reader.subscribe(publisher.rep_endpoint, "other", close)
    publisher.publish("slow", 0)
    assert stalled.entered.wait(TIMEOUT)
    publisher.publish("other", 0)
    assert running.get(timeout=TIMEOUT)


def test_who_reads_is_told_in_order_although_a_callback_stalls(publisher: Agent, reader: Agent) -> None:
    told: list[tuple[str, ...]] = []
    entered, opened = threading.Event(), threading.Event()
    over: queue.SimpleQueue[int] = queue.SimpleQueue()

    def note(names: tuple[str, ...]) -> None:
        told.append(names)
        entered.set()
        assert opened.wait(TIMEOUT)
        over.put(len(names))

    publisher.on_readers("other", note)
    got = Inbox()
    publisher.subscribe(reader.rep_endpoint, "beside", got)
    first: Subscription = reader.subscribe(publisher.rep_endpoint, "other", print)
    assert entered.wait(TIMEOUT)
    first.close()
    publisher.wait_for_subscribers("other", 0)
    reader.publish("beside", 1)
    assert got.contents(1) == [1]
    assert len(told) == 1
    opened.set()
    assert [over.get(timeout=TIMEOUT) for _ in range(2)] == [1, 0]
    assert [len(names) for names in told] == [1, 0]


class Two:
    def __init__(self) -> None:
        self.slow, self.other = Signal("value"), Signal("value")

    def emit(self, number: int) -> None:
        self.slow.emit(number)
        self.other.emit(number)


def test_a_stalled_slot_delays_no_slot_of_another_signal() -> None:
    entered, opened = threading.Event(), threading.Event()
    got: queue.SimpleQueue[int] = queue.SimpleQueue()

    def stall(_: int) -> None:
        entered.set()
        assert opened.wait(TIMEOUT)

    proxy = Server.serve_in_thread(Two)
    try:
        proxy.slow.connect(stall)
        proxy.other.connect(got.put)
        for number in range(10):
            proxy.emit(number)
        assert entered.wait(TIMEOUT)
        assert [got.get(timeout=TIMEOUT) for _ in range(10)] == list(range(10))
    finally:
        opened.set()
        proxy._proxy_stop_server()


def test_a_callback_that_fails_each_time_is_logged_once_and_counted(
    publisher: Agent, reader: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    done: queue.SimpleQueue[object] = queue.SimpleQueue()

    def fail(notification: Notification) -> None:
        if notification.content == "last":
            done.put(None)
        else:
            raise ValueError("the plot is closed")

    subscription = reader.subscribe(publisher.rep_endpoint, "t", fail, policy=block(TIMEOUT))
    for content in (*range(100), "last"):
        publisher.publish("t", content)
    done.get(timeout=TIMEOUT)
    assert subscription.callback_errors == 100
    assert caplog.text.count("the plot is closed") == 2  # in the line of code and in the error
