"""What stays at its server, awaited."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pzc
from pzc import Protocol, Server, aio

from tests.contract.rigs.benches import run
from tests.contract.rigs.racks import Rack

KEY = "a key that both sides know"


class Slots:
    """Can be iterated over, and has neither length nor items."""

    def __init__(self, rack: Rack) -> None:
        self._rack = rack

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rack.channels)


@pytest.fixture
def rack() -> Rack:
    return Rack()


@pytest.fixture
def endpoint(rack: Rack) -> Iterator[str]:
    with Server(rack, protocol=Protocol(KEY), discovery=False) as server:
        yield server.rep_endpoint


def proxy_of(endpoint: str) -> Any:
    return aio.Proxy(endpoint, protocol=Protocol(KEY), timeout=10.0)


def test_paths_are_awaited_at_their_end(rack: Rack, endpoint: str) -> None:
    async def main() -> list[Any]:
        async with proxy_of(endpoint) as proxy:
            await proxy.ch1.voltage.set(3.5)
            await proxy.channels[1].voltage.set(2.5)
            return [
                await proxy.ch1.voltage,
                await proxy.by_name["two"].off(),
                await proxy.channels[0].number,
                await proxy.channels.length(),
                await proxy.ch1.off.options(timeout=5)(slowly=True),
            ]

    assert run(main()) == [3.5, 2, 1, 2, 1]
    assert rack.ch2.voltage == 0.0


def test_a_member_goes_before_an_operation_of_its_name(rack: Rack, endpoint: str) -> None:
    async def main() -> list[Any]:
        async with proxy_of(endpoint) as proxy:
            await proxy.ch1.level.set(1.5)
            await proxy.channels[1].level.set(2.5)
            return [await proxy.ch1.level.get(), await proxy.ch1.level(), await proxy.channels[1].level.unit]

    assert run(main()) == [1.5, 1.5, "V"]
    assert rack.ch2.level.value == 2.5


def test_what_a_method_returns_is_used_there(rack: Rack, endpoint: str) -> None:
    async def main() -> list[Any]:
        async with proxy_of(endpoint) as proxy:
            made = await proxy.make(7)
            await made.voltage.set(2.0)
            held = await proxy.ch1
            assert isinstance(held, aio.RemoteReference)
            assert held == proxy.ch1
            return [
                await made.number,
                await made.voltage,
                await proxy.which(made, [held]),
                await proxy.choose(proxy.ch2),
                [await channel.number async for channel in proxy.each()],
            ]

    assert run(main()) == [7, 2.0, [7, [1]], True, [1, 2]]
    assert rack.given == [rack.ch2]


WITH_ITEMS: dict[str, Callable[[Any], Any]] = {
    "a list of values": lambda rack: rack.volts,
    "a mapping": lambda rack: rack.by_name,
    "a list of what is held": lambda rack: rack.channels,
    "values that a method returned": lambda rack: rack.which(rack.ch1, rack.ch2),
    "what is held and a method returned": lambda rack: rack.pair(),
    "something with __iter__ alone": lambda rack: rack.slots,
}


@pytest.mark.parametrize("way", WITH_ITEMS.values(), ids=WITH_ITEMS)
def test_what_has_items_is_iterated_over_as_at_the_other_face(
    rack: Rack, endpoint: str, way: Callable[[Any], Any]
) -> None:
    wide: Any = rack
    wide.volts, wide.slots = [1.0, 2.0], Slots(rack)

    async def main() -> list[Any]:
        async with proxy_of(endpoint) as proxy:
            found = [each async for each in way(proxy)]
            return [await each.number if isinstance(each, aio.RemoteReference) else each for each in found]

    with pzc.Proxy(endpoint, protocol=Protocol(KEY)) as proxy:
        assert run(main()) == [getattr(each, "number", each) for each in way(proxy)]


def test_a_wait_for_an_item_of_a_list_that_is_cancelled_loses_none(endpoint: str) -> None:
    async def main() -> list[int]:
        async with proxy_of(endpoint) as proxy:
            items = aiter(proxy.channels)
            waiting = asyncio.ensure_future(anext(items))
            await asyncio.wait([waiting], timeout=0)  # it has begun
            waiting.cancel()
            await asyncio.wait([waiting])
            return [await each.number async for each in items]

    assert run(main()) == [1, 2]


def test_what_a_method_returned_stays_for_the_options_of_it(endpoint: str) -> None:
    async def main() -> int:
        async with proxy_of(endpoint) as proxy:
            patient = (await proxy.make(7)).options(timeout=5.0)
            gc.collect()
            await proxy.ch1.number  # behind which comes what is let go
            return await patient.number

    assert run(main()) == 7


def test_a_context_manager_is_entered_and_left(rack: Rack, endpoint: str) -> None:
    async def main() -> bool:
        async with proxy_of(endpoint) as proxy, await proxy.session() as session:
            return await session.open

    assert run(main()) is True
    assert rack.left == ["nothing"]


def test_members_are_completed_below(endpoint: str) -> None:
    proxy = proxy_of(endpoint)
    assert {"voltage", "off", "level"} <= set(dir(proxy.ch1))
    assert "set" in dir(proxy.ch1.voltage)
    run(aio.close(proxy))


def test_a_signal_below_is_awaited(rack: Rack, endpoint: str) -> None:
    async def main() -> Any:
        async with proxy_of(endpoint) as proxy:
            with await proxy.ch1.changed.subscribe() as subscription:
                rack.ch1.voltage = 5.0
                return (await anext(subscription)).content[0]

    assert run(main()) == 5.0


def test_what_was_reached_is_locked_and_batched_as_at_the_other_face(rack: Rack, endpoint: str) -> None:
    async def main() -> list[Any]:
        async with proxy_of(endpoint) as proxy, aio.lock(proxy.ch1):
            made = await proxy.make(7)
            async with aio.batch(proxy.ch1) as below, aio.batch(made) as beside:
                below.voltage = 2.0
                below.number
                beside.number
            return [*below.results, *beside.results]

    assert run(main()) == [None, 1, 7]
    assert rack.ch1.voltage == 2.0


@pytest.mark.parametrize("wrong", [None, "rack", 5])
def test_what_is_no_awaitable_proxy_is_refused(wrong: Any) -> None:
    with pytest.raises(pzc.ConfigError):
        aio.lock(wrong)
    with pytest.raises(pzc.ConfigError):
        aio.batch(wrong)
    with pytest.raises(pzc.ConfigError):
        aio.Proxy(wrong if not isinstance(wrong, str) else b"rack")  # type: ignore[arg-type]


class Level:
    """Has a level, and reads those that it is given."""

    level = 1.5

    @property
    def same(self) -> Level:
        """This one."""
        return self

    def read(self, *others: Any) -> list[float]:
        """Levels of all."""
        return [each.level for each in others]


class Desk:
    """Works with what it is given."""

    def switch(self, *outputs: Any) -> list[Any]:
        """Switch all of them off."""
        return [output.off() for output in outputs]


def test_a_reference_of_another_server_is_used_there(endpoint: str) -> None:
    async def main(desk: str) -> list[Any]:
        async with proxy_of(endpoint) as rack, proxy_of(desk) as proxy:
            return await proxy.switch(rack.ch1, rack.channels[1])

    with Server(Desk(), protocol=Protocol(KEY), discovery=False) as server:
        assert run(main(server.rep_endpoint)) == [1, 2]


@pytest.mark.parametrize("key", ["", KEY], ids=["unsigned", "signed"])
@pytest.mark.parametrize("way", ["call", "batch", "of its own server", "not awaited"])
def test_a_proxy_and_its_references_travel_as_those_of_the_other_face(key: str, way: str) -> None:
    protocol = Protocol(key)

    async def main(there: str, desk: str) -> list[Any]:
        rack = pzc.aio.Proxy(desk if way == "of its own server" else there, protocol=protocol)
        async with pzc.aio.Proxy(desk, protocol=protocol) as proxy:
            if way == "not awaited":
                return await proxy.read(rack, rack)
            async with rack:
                if way == "call":
                    return await proxy.read(rack, rack.same)
                async with pzc.aio.batch(proxy) as batch:
                    batch.read(rack, rack.same)
                return batch.results[0]

    served = (Server(Level(), protocol=protocol, discovery=False) for _ in range(2))
    with next(served) as other, next(served) as server:
        assert run(main(other.rep_endpoint, server.rep_endpoint)) == [1.5, 1.5]


def test_a_reference_that_cannot_be_sent_yet_says_what_to_do(endpoint: str) -> None:
    async def main(desk: str) -> None:
        async with proxy_of(desk) as proxy:
            with pytest.raises(pzc.ConfigError, match=f"await the proxy of {endpoint} first"):
                await proxy.switch(proxy_of(endpoint).ch1)

    with Server(Desk(), protocol=Protocol(KEY), discovery=False) as server:
        run(main(server.rep_endpoint))
