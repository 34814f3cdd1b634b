from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from pzc import Agent, Notification, Subscription, drop, latest
from pzc.transport.executor import Executor

from tests.agents.subscriptions import deliver
from tests.contract.rigs.peers import TIMEOUT, run_threads
from tests.contract.rigs.turns import turns


def note(number: int, content: object) -> Notification:
    return Notification("p", "", "t", "", number, 1, 0.0, 0.0, content)


@pytest.fixture
def subscription() -> Iterator[Subscription]:
    executor = Executor("pzc-test")
    made = Subscription("p", "t", None, drop(), None, executor, lambda _: None)
    yield made
    made.close()


def test_notifications_arrive_without_blocking_the_event_loop() -> None:
    async def consume(publisher: Agent, subscription: Subscription) -> list[int]:
        ticks, seen = 0, []

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await turns()

        ticking = asyncio.create_task(tick())
        async for notification in subscription:
            seen.append(notification.content)
            if len(seen) == 50:
                break
            before = ticks
            publisher.publish("t", len(seen))
            assert ticks == before  # publishing does not run the event loop, waiting for the next does
        ticking.cancel()
        assert ticks > 0
        return seen

    with (
        Agent() as publisher,
        Agent() as reader,
        reader.subscribe(publisher.rep_endpoint, "t", transport="tcp") as subscription,
    ):
        publisher.publish("t", 0)
        assert asyncio.run(asyncio.wait_for(consume(publisher, subscription), TIMEOUT)) == list(range(50))


def test_async_iteration_ends_at_close(subscription: Subscription) -> None:
    async def consume() -> list[object]:
        seen: list[object] = []
        async for notification in subscription:
            seen.append(notification.content)
            threading.Thread(target=subscription.close).start()
        return seen

    deliver(subscription, note(1, "only"))
    assert asyncio.run(asyncio.wait_for(consume(), TIMEOUT)) == ["only"]


def test_async_iteration_of_a_closed_subscription_ends_at_once(subscription: Subscription) -> None:
    async def consume() -> list[Notification]:
        return [notification async for notification in subscription]

    deliver(subscription, note(1, "unread"))
    subscription.close()
    assert asyncio.run(consume()) == []


def test_a_consumer_that_is_cancelled_ends_and_another_one_goes_on(subscription: Subscription) -> None:
    async def consume(seen: list[object], reached: asyncio.Event) -> None:
        async for notification in subscription:
            seen.append(notification.content)
            reached.set()

    async def main() -> tuple[list[object], list[object]]:
        first: list[object] = []
        second: list[object] = []
        reached = asyncio.Event()
        task = asyncio.create_task(consume(first, reached))
        deliver(subscription, note(1, 1))
        await asyncio.wait_for(reached.wait(), TIMEOUT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        deliver(subscription, note(2, 2))
        reached.clear()
        other = asyncio.create_task(consume(second, reached))
        await asyncio.wait_for(reached.wait(), TIMEOUT)
        subscription.end()
        await asyncio.wait_for(other, TIMEOUT)
        return first, second

    assert asyncio.run(main()) == ([1], [2])


def test_two_consumers_share_what_arrives_from_another_thread(subscription: Subscription) -> None:
    seen: list[int] = []

    async def consume() -> None:
        async for notification in subscription:
            seen.append(notification.content)
            if len(seen) == 500:
                subscription.end()

    async def main() -> None:
        both = asyncio.gather(consume(), consume(), asyncio.to_thread(publish))
        await asyncio.wait_for(both, TIMEOUT)

    def publish() -> None:
        for number in range(500):
            deliver(subscription, note(number, number))

    asyncio.run(main())
    assert sorted(seen) == list(range(500))


def test_each_consumer_gets_a_content_of_its_own(subscription: Subscription) -> None:
    content = [1]

    async def consume() -> list[int]:
        own = (await anext(subscription)).content
        own.append(2)
        return own

    deliver(subscription, note(1, content))
    assert asyncio.run(consume()) == [1, 2]
    assert content == [1]


def test_a_reader_whose_event_loop_is_gone_does_no_harm(subscription: Subscription) -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(subscription.__anext__())
    loop.run_until_complete(turns())
    loop.call_soon(loop.stop)
    loop.run_forever()
    waker = subscription._wakers[0]
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    subscription._wakers = (waker,)
    deliver(subscription, note(1, "x"))
    assert subscription.recv(0).content == "x"


def test_iteration_in_a_thread_ends_when_the_agent_stops() -> None:
    with Agent() as publisher, Agent() as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        seen: list[object] = []
        first = threading.Event()

        def read() -> None:
            for notification in subscription:
                seen.append(notification.content)
                first.set()

        def end() -> None:
            publisher.publish("t", "one")
            assert first.wait(TIMEOUT)
            reader.stop()

        run_threads(read, end)
    assert seen == ["one"]
    assert subscription.closed


def test_async_iteration_ends_when_the_agent_stops() -> None:
    async def consume(reader: Agent, subscription: Subscription) -> list[object]:
        stopping = None
        seen: list[object] = []
        async for notification in subscription:
            seen.append(notification.content)
            stopping = asyncio.create_task(asyncio.to_thread(reader.stop))
        assert stopping is not None
        await stopping
        return seen

    with Agent() as publisher, Agent() as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=latest(5))
        publisher.publish("t", "one")
        assert asyncio.run(asyncio.wait_for(consume(reader, subscription), TIMEOUT)) == ["one"]
