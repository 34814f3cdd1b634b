"""Awaited calls of members that their server declares idempotent are sent again, as those of `pzc.Proxy` are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pzc import PeerLost, Protocol, aio

from tests.contract.rigs.calling import KEY, TIMEOUT, ServerProcess
from tests.contract.rigs.endpoints import free_endpoint

Call = Callable[[Any, str], Awaitable[str]]


READS: dict[str, Call] = {
    "of what is served": lambda rack, memory: rack.read(memory),
    "of a channel": lambda rack, memory: rack.ch1.read(memory),
    "of an item": lambda rack, memory: rack.channels[0].read(memory),
    "with options": lambda rack, memory: rack.read.options(timeout=TIMEOUT)(memory),
}


def across_a_restart(call: Call, memory: Path) -> str:
    """The result of a call that ends its server, which is started again."""

    async def main() -> str:
        endpoint = free_endpoint()
        with ServerProcess("FragileRack", endpoint) as first:
            async with aio.Proxy(endpoint, timeout=TIMEOUT, protocol=Protocol(KEY)) as rack:
                task = asyncio.ensure_future(call(rack, str(memory)))
                await asyncio.to_thread(first.process.wait, TIMEOUT)
                with ServerProcess("FragileRack", endpoint):
                    return await task

    return asyncio.run(main())


@pytest.mark.parametrize("way", READS)
def test_a_declared_call_is_sent_again(way: str, tmp_path: Path) -> None:
    assert across_a_restart(READS[way], tmp_path / "memory") == "read"


@pytest.mark.parametrize(
    "call",
    [
        lambda rack, memory: rack.once(memory),
        lambda rack, memory: rack.read.options(idempotent=False)(memory),
    ],
    ids=["not declared", "declined"],
)
def test_another_call_is_not_sent_again(call: Call, tmp_path: Path) -> None:
    with pytest.raises(PeerLost):
        across_a_restart(call, tmp_path / "memory")
