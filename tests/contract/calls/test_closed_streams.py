"""A stream whose proxy is closed raises in whoever reads it: what came so far is not the whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import AgentClosed, Protocol, Proxy, Server, aio, close

from tests.contract.rigs.calling import TIMEOUT

WAYS = {"unix": ("", "unix"), "tcp": ("", "tcp")}


class Scope:
    def points(self, count: int) -> Iterator[int]:
        yield from range(count)


@pytest.fixture(params=WAYS)
def scope(request: pytest.FixtureRequest) -> Iterator[Any]:
    key, transport = WAYS[request.param]
    protocol = Protocol(key)
    with Server(Scope(), protocol=protocol) as server:
        yield Proxy(server.rep_endpoint, timeout=TIMEOUT, transport=transport, protocol=protocol)


@pytest.mark.parametrize("read", [0, 1, 20])
def test_a_stream_whose_proxy_is_closed_raises(scope: Any, read: int) -> None:
    stream = scope.points(1000)
    for _ in range(read):
        next(stream)
    close(scope)
    with pytest.raises(AgentClosed, match="closed"):
        list(stream)


def test_a_stream_raises_although_its_last_items_have_come(scope: Any) -> None:
    stream = scope.points(6)
    assert [next(stream) for _ in range(4)] == [0, 1, 2, 3]
    close(scope)
    with pytest.raises(AgentClosed):
        list(stream)


def test_a_stream_that_was_read_to_its_end_stays_ended(scope: Any) -> None:
    stream = scope.points(6)
    assert list(stream) == [*range(6)]
    close(scope)
    assert list(stream) == []


def test_an_awaited_stream_whose_proxy_is_closed_raises() -> None:
    async def main(endpoint: str) -> None:
        scope = aio.Proxy(endpoint, timeout=TIMEOUT)
        stream = aiter(await scope.points(1000))
        await anext(stream)
        await aio.close(scope)
        async for _ in stream:
            pass

    with Server(Scope()) as server, pytest.raises(AgentClosed):
        asyncio.run(main(server.rep_endpoint))
