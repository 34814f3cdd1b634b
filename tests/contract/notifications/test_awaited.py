"""``@agent.on`` and callbacks that are coroutine functions."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

import pytest

from pzc import Agent, Notification, PeerLost, Subscription

from tests.contract.rigs.pairs import LONG, WAYS, pair, publish_until_full, wait_until
from tests.contract.rigs.peers import TIMEOUT

every_way = pytest.mark.parametrize("way", WAYS)


@every_way
def test_a_decorated_function_is_called_and_stays_what_it_is(way: str) -> None:
    found: queue.Queue[Any] = queue.Queue()
    with pair() as (publisher, reader):

        @reader.on(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        def take(notification: Notification) -> str:
            found.put(notification.content)
            return "taken"

        publisher.publish("t", 1)
        assert found.get(timeout=TIMEOUT) == 1
        assert take(Notification("", "", "t", "", 1, 1, 0.0, 0.0, 2)) == "taken"


def test_unsubscribe_ends_it() -> None:
    with pair() as (publisher, reader):
        for _ in range(2):
            reader.on(publisher.rep_endpoint, "t")(print)
        assert reader.unsubscribe(publisher.rep_endpoint, "t") == 2


def test_what_cannot_be_subscribed_to_is_told_where_it_is_decorated() -> None:
    with Agent() as reader:
        decorate = reader.on("tcp://127.0.0.1:9", "t", timeout=0.2)
        with pytest.raises((PeerLost, TimeoutError)):
            decorate(print)


def test_a_notification_is_done_with_when_its_coroutine_has_ended() -> None:
    release = threading.Event()

    async def take(notification: Notification) -> None:
        await asyncio.to_thread(release.wait, TIMEOUT)

    with pair() as (publisher, reader):
        publisher.advertise("t", buffers=2)
        policy = LONG.__class__("block", 2, timeout=0.0)
        reader.subscribe(publisher.rep_endpoint, "t", take, policy=policy, transport="unix")
        assert publish_until_full(publisher, "t") == 2
        release.set()
        wait_until(lambda: publish_until_full(publisher, "t", most=1) == 1)


def test_coroutines_of_two_subscriptions_run_side_by_side() -> None:
    met = threading.Barrier(3)

    async def meet(notification: Notification) -> None:
        await asyncio.to_thread(met.wait, TIMEOUT)

    with pair() as (publisher, reader):
        for topic in "ab":
            reader.subscribe(publisher.rep_endpoint, topic, meet)
            publisher.publish(topic, 1)
        met.wait(TIMEOUT)


def test_functions_are_called_while_a_coroutine_waits() -> None:
    found: queue.Queue[Any] = queue.Queue()
    release = threading.Event()

    async def wait(notification: Notification) -> None:
        await asyncio.to_thread(release.wait, TIMEOUT)

    with pair() as (publisher, reader):
        reader.subscribe(publisher.rep_endpoint, "t", wait)
        reader.subscribe(publisher.rep_endpoint, "t", lambda n: found.put(n.content))
        publisher.publish("t", 1)
        assert found.get(timeout=TIMEOUT) == 1
        release.set()


def test_a_coroutine_that_fails_is_counted_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    found: queue.Queue[Any] = queue.Queue()

    async def fail(notification: Notification) -> None:
        found.put(notification.content)
        raise ValueError(notification.content)

    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", fail)
        for number in range(2):
            publisher.publish("t", number)
        assert [found.get(timeout=TIMEOUT) for _ in range(2)] == [0, 1]
        wait_until(lambda: subscription.callback_errors == 2)


def test_a_coroutine_may_close_its_own_subscription() -> None:
    closed = threading.Event()
    subscriptions: list[Subscription] = []
    subscribed = threading.Event()

    async def leave(notification: Notification) -> None:
        await asyncio.to_thread(subscribed.wait, TIMEOUT)
        subscriptions[0].close()
        closed.set()

    with pair() as (publisher, reader):
        subscriptions.append(reader.subscribe(publisher.rep_endpoint, "t", leave))
        subscribed.set()
        publisher.publish("t", 1)
        assert closed.wait(TIMEOUT / 4)  # less than a close would wait for a callback that runs


def test_a_stop_cancels_what_runs() -> None:
    began, ended = threading.Event(), threading.Event()

    async def wait(notification: Notification) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", wait)
        publisher.publish("t", 1)
        assert began.wait(TIMEOUT)
        reader.stop()
        assert ended.is_set()
        assert subscription.callback_errors == 0


def test_coroutines_of_all_subscriptions_need_one_thread() -> None:
    called = threading.Semaphore(0)

    async def take(notification: Notification) -> None:
        called.release()

    with pair() as (publisher, reader):
        before = {thread.ident for thread in threading.enumerate()}
        for topic in "abcde":
            reader.subscribe(publisher.rep_endpoint, topic, take)
            publisher.publish(topic, 1)
            assert called.acquire(timeout=TIMEOUT)
        names = [t.name for t in threading.enumerate() if t.ident not in before]
        assert (names.count("pzc-async"), names.count("pzc-callbacks")) == (1, 0)


def test_a_close_waits_for_the_coroutine_that_runs() -> None:
    began, release, ended = threading.Event(), threading.Event(), threading.Event()

    async def take(notification: Notification) -> None:
        began.set()
        await asyncio.to_thread(release.wait, TIMEOUT)
        ended.set()

    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", take)
        publisher.publish("t", 1)
        assert began.wait(TIMEOUT)
        closing = threading.Thread(target=subscription.close)
        closing.start()
        assert not ended.is_set()
        release.set()
        closing.join(TIMEOUT)
        assert ended.is_set()


def test_a_gap_is_reported_where_coroutines_run_and_within_none() -> None:
    steps: queue.Queue[str] = queue.Queue()
    release = threading.Event()

    async def take(notification: Notification) -> None:
        steps.put("begin")
        await asyncio.to_thread(release.wait, TIMEOUT)
        steps.put("end")

    async def end(notification: Notification) -> None:
        release.set()

    def on_gap(gap: object) -> None:
        steps.put(threading.current_thread().name)

    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", take, policy=LONG.__class__("drop", 1))
        reader.subscribe(publisher.rep_endpoint, "last", end)
        subscription.on_gap = on_gap
        publisher.publish("t", 1)
        assert steps.get(timeout=TIMEOUT) == "begin"
        for number in range(2, 5):
            publisher.publish("t", number)
        publisher.publish("last", 5)
        assert [steps.get(timeout=TIMEOUT) for _ in range(2)] == ["end", "pzc-async"]
