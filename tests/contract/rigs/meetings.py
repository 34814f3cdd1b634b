"""Coroutines of a server that meet each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from pzc import Proxy

from tests.contract.rigs.calling import TIMEOUT, served
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
