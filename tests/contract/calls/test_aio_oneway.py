from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc.aio import batch

from tests.contract.rigs.benches import Bench, bench_served, proxy_of, run
from tests.contract.rigs.calling import until


@pytest.fixture
def bench() -> Iterator[tuple[Bench, str]]:
    with bench_served() as served:
        yield served


def test_one_way_calls_run_in_the_order_of_all_others(bench: tuple[Bench, str]) -> None:
    async def main() -> list[int]:
        counted: list[int] = []
        async with proxy_of(bench[1]) as psu:
            for _ in range(200):
                await psu.count.oneway()
                counted.append(await psu.count())
        return counted

    assert run(main()) == [*range(2, 402, 2)]


def test_a_one_way_call_arrives_though_its_proxy_is_closed_at_once(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            await psu.count.oneway()

    for _ in range(50):
        run(main())
    until(lambda: bench[0].calls == 50)


def test_a_batch_is_sent_one_way(bench: tuple[Bench, str]) -> None:
    async def main() -> int:
        async with proxy_of(bench[1]) as psu:
            async with batch(psu, oneway=True) as calls:
                calls.count()
                calls.count()
            return await psu.count()

    assert run(main()) == 3
