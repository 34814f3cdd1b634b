from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pzc import MemberRefused, aio
from pzc.agents.awaiting.awaiting import outcome

from tests.contract.rigs.benches import Bench, bench_served, proxy_of, reached, run
from tests.contract.rigs.calling import TIMEOUT, in_thread
from tests.contract.rigs.turns import turns


@pytest.fixture
def bench() -> Iterator[tuple[Bench, str]]:
    with bench_served() as served:
        yield served


def test_private_members_are_refused_at_once() -> None:
    with pytest.raises(MemberRefused, match="private"):
        _ = aio.Proxy("tcp://127.0.0.1:1")._secret


def test_a_cancelled_task_takes_back_a_call_that_has_not_started(bench: tuple[Bench, str]) -> None:
    served, endpoint = bench

    async def main() -> int:
        async with proxy_of(endpoint) as psu:
            first = asyncio.create_task(psu.wait())
            await reached(served.entered)
            second = asyncio.create_task(psu.count())
            await turns()
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            await in_order(psu)
            served.opened.set()
            await first
            return await psu.count()

    assert run(main()) == 1


async def in_order(psu: aio.Proxy) -> None:
    """The server has seen whatever was sent before."""
    remote = psu._proxy_link.remote
    assert remote is not None
    for _ in range(2):  # the I/O thread comes to a notice in two steps, and to a ping in one
        await outcome(remote.agent.exchange_later(remote.peer, "ping", TIMEOUT))


def test_two_event_loops_in_two_threads_share_one_proxy(bench: tuple[Bench, str]) -> None:
    psu = proxy_of(bench[1])

    async def calls(factor: int) -> list[int]:
        return await asyncio.gather(*(psu.ramp(number, factor) for number in range(50)))

    started = [in_thread(lambda factor=factor: run(calls(factor))) for factor in (2, 3)]
    for thread, _ in started:
        thread.join(TIMEOUT)
    assert [outcome for _, outcome in started] == [[[n * factor for n in range(50)]] for factor in (2, 3)]
    run(aio.close(psu))
