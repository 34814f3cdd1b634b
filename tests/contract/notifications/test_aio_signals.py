from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from pzc import Notification, aio, drop, latest

from tests.contract.rigs.benches import Bench, bench_served, proxy_of, reached, run
from tests.contract.rigs.calling import TIMEOUT, until
from tests.contract.rigs.turns import turns


@pytest.fixture
def bench() -> Iterator[tuple[Bench, str]]:
    with bench_served() as served:
        yield served


async def next_of(notifications: AsyncIterator[Notification], served: Bench) -> Notification:
    """The next one; the signal is emitted until it comes."""

    async def read() -> Notification:
        return await anext(notifications)

    waiting = asyncio.create_task(read())
    while not waiting.done():
        served.voltage_changed.emit(3.3, 0.0)
        await asyncio.wait([waiting], timeout=0.02)
    return await waiting


def test_a_signal_gives_notifications(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            notification = await next_of(aiter(psu.voltage_changed), served)
            assert notification.topic == "voltage_changed"
            assert list(notification.content) == [3.3, 0.0, None]

    run(main())


def test_a_subscription_that_was_awaited_misses_nothing_that_follows(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> list[int]:
        async with proxy_of(endpoint) as psu:
            with await psu.voltage_changed.subscribe(drop(1000)) as subscription:
                for number in range(500):
                    served.voltage_changed.emit(number)
                return [(await anext(subscription)).content[0] for _ in range(500)]

    assert run(main()) == list(range(500))


def test_a_cancelled_connect_leaves_a_slot_that_is_connected_again(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench
    come = threading.Event()

    def slot(_: float) -> None:
        come.set()

    def is_over() -> bool:
        return all(thread.name != "pzc-aio" for thread in threading.enumerate())

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            await psu
            given_up = asyncio.create_task(psu.voltage_changed.connect(slot))
            await turns()
            given_up.cancel()
            await psu.voltage_changed.connect(slot)
            await asyncio.to_thread(until, is_over)
            served.voltage_changed.emit(1.5)
            await reached(come)

    run(main())


def test_a_subscription_keeps_its_proxy_open(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> float:
        with await proxy_of(endpoint).voltage_changed.subscribe() as subscription:
            gc.collect()
            served.voltage_changed.emit(1.5)
            return (await anext(subscription)).content[0]

    assert run(main()) == 1.5


def test_a_subscription_has_the_policy_that_was_asked_for(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            with await psu.voltage_changed.subscribe(latest(1)) as subscription:
                assert subscription.policy == latest(1)

    run(main())


def test_leaving_the_loop_over_a_signal_ends_the_subscription(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            await next_of(aiter(psu.voltage_changed), served)
            await reached(served.voltage_changed.silent)

    run(main())


def test_iterating_a_signal_ends_when_the_proxy_is_closed(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> list[Notification]:
        psu = proxy_of(endpoint)
        notifications = aiter(psu.voltage_changed)
        await next_of(notifications, served)

        async def rest() -> list[Notification]:
            return [notification async for notification in notifications]

        waiting = asyncio.create_task(rest())
        await turns()
        await aio.close(psu)
        return await waiting

    run(main())


def test_a_cancelled_wait_for_a_notification_loses_none(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> float:
        async with proxy_of(endpoint) as psu:
            with await psu.voltage_changed.subscribe() as subscription:
                for _ in range(5):
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(anext(subscription), 0.01)
                served.voltage_changed.emit(1.5)
                return (await anext(subscription)).content[0]

    assert run(main()) == 1.5


def test_what_is_no_signal_cannot_be_subscribed_to(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            with pytest.raises(TypeError, match=r"voltage of .* is a value, no signal"):
                async for _ in psu.voltage:
                    pass

    run(main())


def test_a_slot_is_called_until_it_is_disconnected(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench
    seen: list[float] = []
    called = threading.Event()

    def slot(value: float) -> None:
        seen.append(value)
        called.set()

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            await psu.voltage_changed.connect(slot)
            served.voltage_changed.emit(1.0)
            assert await asyncio.to_thread(called.wait, TIMEOUT)
            await psu.voltage_changed.disconnect(slot)
            await reached(served.voltage_changed.silent)

    run(main())
    assert seen == [1.0]


def test_a_coroutine_slot_runs_in_the_event_loop_of_who_connected_it(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> None:
        here = asyncio.get_running_loop()
        ran: asyncio.Future[tuple[object, float, float]] = here.create_future()

        async def slot(value: float, old: float) -> None:
            ran.set_result((asyncio.get_running_loop(), value, old))

        async with proxy_of(endpoint) as psu:
            await psu.voltage_changed.connect(slot)
            served.voltage_changed.emit(2.0, 1.0)
            assert await ran == (here, 2.0, 1.0)

    run(main())


def test_a_coroutine_slot_is_called_once_at_a_time_and_in_order(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> list[int]:
        begun: list[int] = []
        ended: list[int] = []
        over = asyncio.Event()

        async def slot(value: int) -> None:
            begun.append(value)
            await turns(10)
            assert begun[-1] == value
            ended.append(value)
            if value == 99:
                over.set()

        async with proxy_of(endpoint) as psu:
            await psu.voltage_changed.connect(slot)
            for number in range(100):
                served.voltage_changed.emit(number)
            await over.wait()
        return ended

    assert run(main()) == list(range(100))


def test_an_object_with_a_coroutine_call_is_a_coroutine_slot(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    class Slot:
        def __init__(self) -> None:
            self.seen: asyncio.Queue[float] = asyncio.Queue()

        async def __call__(self, value: float) -> None:
            self.seen.put_nowait(value)

    async def main() -> float:
        slot = Slot()
        async with proxy_of(endpoint) as psu:
            await psu.voltage_changed.connect(slot)
            served.voltage_changed.emit(4.0)
            return await slot.seen.get()

    assert run(main()) == 4.0


def test_a_coroutine_slot_may_disconnect_itself(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> list[int]:
        seen: list[int] = []
        over = asyncio.Event()

        async with proxy_of(endpoint) as psu:

            async def slot(value: int) -> None:
                seen.append(value)
                await psu.voltage_changed.disconnect(slot)
                over.set()

            await psu.voltage_changed.connect(slot)
            for number in range(5):
                served.voltage_changed.emit(number)
            await over.wait()
            await reached(served.voltage_changed.silent)
        return seen

    assert run(main()) == [0]


def test_a_coroutine_slot_may_close_its_proxy(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> None:
        over = asyncio.Event()
        psu = await proxy_of(endpoint)

        async def slot() -> None:
            await aio.close(psu)
            over.set()

        await psu.voltage_changed.connect(slot)
        served.voltage_changed.emit(1)
        await over.wait()

    run(main())


def test_a_coroutine_slot_that_raises_is_logged_and_called_again(
    bench: tuple[Bench, str], caplog: pytest.LogCaptureFixture
) -> None:
    served, endpoint = bench

    async def main() -> None:
        again = asyncio.Event()

        async def slot(value: int) -> None:
            if value == 0:
                raise ValueError("the printer is out of paper")
            again.set()

        async with proxy_of(endpoint) as psu:
            await psu.voltage_changed.connect(slot)
            served.voltage_changed.emit(0)
            served.voltage_changed.emit(1)
            await again.wait()

    run(main())
    assert "the printer is out of paper" in caplog.text


def test_a_coroutine_slot_whose_event_loop_was_closed_is_disconnected(
    bench: tuple[Bench, str], caplog: pytest.LogCaptureFixture
) -> None:
    served, endpoint = bench
    psu = proxy_of(endpoint)

    async def slot() -> None:
        raise AssertionError("its event loop is closed")

    async def connect() -> None:
        await psu.voltage_changed.connect(slot)

    async def emit() -> None:
        served.voltage_changed.emit(1)
        await reached(served.voltage_changed.silent)
        await aio.close(psu)

    run(connect())
    with caplog.at_level(logging.WARNING, "pzc.aio"):
        run(emit())
    assert "its event loop is closed" in caplog.text


def test_a_slot_that_is_not_connected_cannot_be_disconnected(bench: tuple[Bench, str]) -> None:
    async def slot() -> None: ...

    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            with pytest.raises(ValueError, match="not connected"):
                await psu.voltage_changed.disconnect(slot)

    run(main())


def test_a_slot_must_be_callable(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            with pytest.raises(TypeError, match="callable"):
                await psu.voltage_changed.connect(cast("Any", "print"))

    run(main())


def test_the_signal_of_a_served_object_can_be_emitted_by_the_names_of_its_values(
    bench: tuple[Bench, str],
) -> None:
    served, endpoint = bench
    seen: list[float] = []
    served.voltage_changed.connect(lambda value, old: seen.append(old))

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            await psu.voltage_changed.emit(9.9, old_value=8.8)

    run(main())
    assert seen == [8.8]


def test_the_signal_of_a_served_object_can_be_emitted(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench
    seen: list[float] = []
    served.voltage_changed.connect(lambda value: seen.append(value))

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            await psu.voltage_changed.emit(9.9)

    run(main())
    assert seen == [9.9]
