from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pzc import MemberRefused, aio

from tests.contract.rigs.benches import Bench, bench_served, proxy_of, run
from tests.contract.rigs.calling import TIMEOUT, in_thread


@pytest.fixture
def bench() -> Iterator[tuple[Bench, str]]:
    with bench_served() as served:
        yield served


def test_private_members_are_refused_at_once() -> None:
    with pytest.raises(MemberRefused, match="private"):
        _ = aio.Proxy("tcp://127.0.0.1:1")._secret


def test_two_event_loops_in_two_threads_share_one_proxy(bench: tuple[Bench, str]) -> None:
    psu = proxy_of(bench[1])

    async def calls(factor: int) -> list[int]:
        return await asyncio.gather(*(psu.ramp(number, factor) for number in range(50)))

    started = [in_thread(lambda factor=factor: run(calls(factor))) for factor in (2, 3)]
    for thread, _ in started:
        thread.join(TIMEOUT)
    assert [outcome for _, outcome in started] == [[[n * factor for n in range(50)]] for factor in (2, 3)]
    run(aio.close(psu))
