from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from pzc import LockedBy, Protocol, Proxy, aio, close, lock

from tests.contract.rigs.benches import Bench, bench_served, proxy_of, reached, run
from tests.contract.rigs.calling import KEY, TIMEOUT


@pytest.fixture
def bench() -> Iterator[tuple[Bench, str]]:
    with bench_served() as served:
        yield served


def test_a_generator_is_iterated(bench: tuple[Bench, str]) -> None:
    async def main() -> list[int]:
        async with proxy_of(bench[1]) as psu:
            return [item async for item in psu.scan(1000)]

    assert run(main()) == list(range(1000))


def test_an_awaited_generator_call_gives_its_items_too(bench: tuple[Bench, str]) -> None:
    async def main() -> list[int]:
        async with proxy_of(bench[1]) as psu:
            items: AsyncIterator[int] = await psu.scan(3)
            return [item async for item in items]

    assert run(main()) == [0, 1, 2]


def test_a_generator_that_raises_does_so_behind_its_items(bench: tuple[Bench, str]) -> None:
    async def main() -> list[int]:
        async with proxy_of(bench[1]) as psu:
            items = aiter(psu.break_off())
            seen = [await anext(items)]
            with pytest.raises(ValueError, match="out of paper"):
                await anext(items)
            return [*seen, *[item async for item in items]]

    assert run(main()) == [1]


def test_leaving_the_loop_over_a_generator_ends_it_at_the_server(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            async for item in psu.scan(1_000_000):
                if item == 3:
                    break
            await reached(served.ended)

    run(main())


def test_a_generator_that_is_closed_ends_at_the_server_and_gives_no_more(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            items = await psu.scan(1_000_000)
            assert await anext(items) == 0
            await items.aclose()
            await reached(served.ended)
            assert [item async for item in items] == []

    run(main())


def test_a_cancelled_wait_for_an_item_loses_none(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> list[str]:
        async with proxy_of(endpoint) as psu:
            items = aiter(psu.measure())
            seen = [await anext(items)]
            for _ in range(5):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(anext(items), 0.01)
            served.opened.set()
            return [*seen, *[item async for item in items]]

    assert run(main()) == ["begun", "through"]


def test_a_cancelled_wait_for_an_item_leaves_nothing_behind(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    def waits() -> int:
        gc.collect()
        return sum(isinstance(each, asyncio.Future) for each in gc.get_objects())

    async def main() -> tuple[int, list[str]]:
        async with proxy_of(endpoint) as psu:
            items = aiter(psu.measure())
            seen, before = [await anext(items)], waits()
            for _ in range(100):
                waiting = asyncio.ensure_future(anext(items))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait((waiting,))
            left = waits() - before
            served.opened.set()
            return left, [*seen, *[item async for item in items]]

    left, seen = run(main())
    assert left < 10
    assert seen == ["begun", "through"]


def test_a_cancelled_wait_for_the_first_item_loses_none(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> list[int]:
        async with proxy_of(endpoint) as psu:
            busy = asyncio.create_task(psu.wait())
            await reached(served.entered)
            items = aiter(psu.scan(3))
            for _ in range(2):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(anext(items), 0.01)
            served.opened.set()
            await busy
            return [item async for item in items]

    assert run(main()) == [0, 1, 2]


def test_tasks_may_share_a_generator_from_its_first_item_on(bench: tuple[Bench, str]) -> None:
    async def main() -> list[int]:
        async with proxy_of(bench[1]) as psu:
            items = aiter(psu.scan(3))
            return sorted(await asyncio.gather(*(anext(items) for _ in range(3))))

    assert run(main()) == [0, 1, 2]


def test_a_loop_that_is_cancelled_before_its_first_item_ends_the_call(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def work(psu: aio.Proxy) -> None:
        async for _ in psu.run_until_cancelled():
            pass

    async def main() -> None:
        async with proxy_of(endpoint) as psu:
            task = asyncio.create_task(work(psu))
            await reached(served.entered)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await reached(served.ended)

    run(main())


def test_a_generator_that_is_closed_before_its_first_item_ends_the_call(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> list[int]:
        async with proxy_of(endpoint) as psu:
            items = aiter(psu.run_until_cancelled())
            waiting = asyncio.create_task(anext(items, -1))
            await reached(served.entered)
            await items.aclose()
            await reached(served.ended)
            return [await waiting, *[item async for item in items]]

    assert run(main()) == [-1]


def test_what_is_no_generator_cannot_be_iterated(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            with pytest.raises(TypeError, match="no stream: await it"):
                async for _ in psu.ramp(1):
                    pass

    run(main())


def test_a_lock_keeps_others_out(bench: tuple[Bench, str]) -> None:
    other = Proxy(bench[1], protocol=Protocol(KEY), timeout=TIMEOUT)

    async def main() -> int:
        async with proxy_of(bench[1]) as psu:
            async with aio.lock(psu, ttl=30, reason="calibration"):
                with pytest.raises(LockedBy, match="calibration"):
                    other.ramp(1)
                assert await psu.ramp(1) == 2
            return other.ramp(2)

    assert run(main()) == 4
    close(other)


def test_a_task_that_is_cancelled_while_it_waits_for_a_lock_does_not_keep_it(
    bench: tuple[Bench, str],
) -> None:
    other = Proxy(bench[1], protocol=Protocol(KEY), timeout=TIMEOUT)

    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            waiting = aio.lock(psu, wait=TIMEOUT)
            with lock(other):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(waiting.__aenter__(), 0.1)
            await asyncio.to_thread(lambda: lock(other, wait=TIMEOUT).release())

    run(main())
    close(other)


def test_a_lock_that_tasks_share_is_free_when_each_has_left_it(bench: tuple[Bench, str]) -> None:
    other = Proxy(bench[1], protocol=Protocol(KEY), timeout=TIMEOUT)

    async def main() -> int:
        async with proxy_of(bench[1]) as psu:
            shared = aio.lock(psu)
            async with shared, shared:
                pass
            return await asyncio.to_thread(other.ramp, 2)

    assert run(main()) == 4
    close(other)


def test_a_batch_runs_in_one_turn(bench: tuple[Bench, str]) -> None:
    async def main() -> list[Any]:
        async with proxy_of(bench[1]) as psu:
            async with aio.batch(psu) as calls:
                calls.voltage
                calls.ramp(2)
            return calls.results

    assert run(main()) == [0.0, 4]


def test_a_task_that_is_cancelled_in_a_batch_tells_the_call_that_runs(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def work(psu: aio.Proxy) -> None:
        async with aio.batch(psu) as calls:
            calls.run_until_cancelled()
            calls.count()

    async def main() -> int:
        async with proxy_of(endpoint) as psu:
            task = asyncio.create_task(work(psu))
            await reached(served.entered)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await reached(served.ended)
            return await psu.count()

    assert run(main()) == 1
