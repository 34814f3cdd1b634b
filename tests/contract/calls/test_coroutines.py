from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import PeerLost, Proxy

from tests.contract.rigs.calling import TIMEOUT, in_thread, served
from tests.contract.rigs.peers import run_threads
from tests.contract.rigs.turns import turns


class Meeting:
    """Coroutines that count how many are inside."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.together = asyncio.Event()
        self.entered = threading.Event()
        self.ended = threading.Event()

    async def visit(self) -> int:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await turns()
        self.inside -= 1
        return self.inside

    async def meet(self, others: int) -> None:
        self.inside += 1
        if self.inside == others:
            self.together.set()
        await asyncio.wait_for(self.together.wait(), TIMEOUT)

    async def sleep(self) -> None:
        self.entered.set()
        try:
            await asyncio.wait_for(asyncio.Event().wait(), TIMEOUT)
        finally:
            await turns(20)
            self.ended.set()

    async def stubborn(self) -> str:
        self.entered.set()
        try:
            await asyncio.wait_for(asyncio.Event().wait(), TIMEOUT)
        except asyncio.CancelledError:
            return "I went on"
        return "never told"

    async def fail(self) -> None:
        await turns()
        raise ValueError("out of range")

    async def leave(self) -> None:
        raise SystemExit(3)

    def plain(self) -> bool:
        return self.ended.is_set()


@pytest.fixture
def meeting() -> Meeting:
    return Meeting()


@pytest.fixture
def proxy(meeting: Meeting) -> Iterator[Proxy]:
    with served(meeting) as (_, made):
        yield made


def test_async_methods_run_one_at_a_time_in_a_lane_of_one(meeting: Meeting, proxy: Any) -> None:
    run_threads(*[lambda: proxy.visit()] * 5)
    assert (meeting.most, meeting.inside) == (1, 0)


def test_async_methods_meet_in_a_lane_of_three(meeting: Meeting) -> None:
    with served(meeting, concurrency=3) as (_, proxy):
        run_threads(*[lambda: proxy.meet(3)] * 3)
    assert meeting.inside == 3


def test_what_an_async_method_raises_comes_back(proxy: Any) -> None:
    with pytest.raises(ValueError, match="out of range"):
        proxy.fail()
    assert proxy.visit() == 0


def test_an_async_method_that_exits_costs_its_caller_an_error_and_the_server_nothing(proxy: Any) -> None:
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        proxy.leave()
    assert proxy.visit() == 0


def test_a_server_that_is_stopped_cancels_the_coroutine_that_runs(meeting: Meeting) -> None:
    with served(meeting) as (server, proxy):
        thread, outcome = in_thread(lambda: proxy.sleep())
        assert meeting.entered.wait(TIMEOUT)
        server.stop()
        thread.join(TIMEOUT)
    assert meeting.ended.is_set()
    assert isinstance(outcome[0], PeerLost)
