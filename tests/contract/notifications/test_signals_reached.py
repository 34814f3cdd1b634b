"""A signal is heard by whatever leads to it, and what is none is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from pzc import MemberRefused, Proxy, Signal

from tests.contract.rigs.benches import proxy_of, run
from tests.contract.rigs.calling import KEY, TIMEOUT, served


class Channel:
    """With a signal."""

    def __init__(self) -> None:
        self.changed = Signal("volts")


class Rack:
    """Signals that no table of members has."""

    def __init__(self) -> None:
        self._changed = Signal("volts")
        self.signals = {"volts": self._changed}
        self.channels = [Channel()]
        self.volts = 3.3

    @property
    def computed(self) -> Signal:
        """The same."""
        return self._changed

    def signal(self) -> Signal:
        """The same."""
        return self._changed

    def fire(self) -> None:
        """Emit it."""
        self._changed.emit(1.5)


WAYS: dict[str, Callable[[Any], Any]] = {
    "item": lambda rack: rack.signals["volts"],
    "property": lambda rack: rack.computed,
    "result": lambda rack: rack.signal(),
}


async def given(what: Any) -> Any:
    """What a call gave; a path as it is."""
    return await what if isinstance(what, Coroutine) else what


@pytest.fixture
def racks() -> Iterator[tuple[Proxy, str]]:
    with served(Rack(), key=KEY) as (server, rack):
        yield rack, server.rep_endpoint


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_signal_is_heard_by_whatever_gives_it(racks: tuple[Any, str], way: Callable[[Any], Any]) -> None:
    rack, heard = racks[0], threading.Event()
    way(rack).connect(lambda volts: volts == 1.5 and heard.set())
    rack.fire()
    assert heard.wait(TIMEOUT)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_signal_is_awaited_by_whatever_gives_it(racks: tuple[Any, str], way: Callable[[Any], Any]) -> None:
    async def main() -> object:
        async with proxy_of(racks[1]) as rack:
            signal = await given(way(rack))
            with await signal.subscribe() as changes:
                await rack.fire()
                return (await anext(changes)).content[0]

    assert run(main()) == 1.5


NONE: dict[str, Callable[[Any], Any]] = {
    "a reference that is an item": lambda rack: rack.channels[0],
    "what is served": lambda rack: rack,
    "a value": lambda rack: rack.volts,
}


@pytest.mark.parametrize("way", NONE.values(), ids=NONE)
def test_what_is_no_signal_is_not_waited_for(racks: tuple[Any, str], way: Callable[[Any], Any]) -> None:
    async def main() -> None:
        async with proxy_of(racks[1]) as rack:
            thing = await given(way(rack))
            with pytest.raises(TypeError, match="no signal"):
                async for _ in thing:
                    pass

    run(main())


def test_a_misspelt_signal_is_refused_with_the_nearest_name(racks: tuple[Any, str]) -> None:
    async def main() -> None:
        async with proxy_of(racks[1]) as rack:
            with pytest.raises(MemberRefused, match="changed"):
                await rack.channels[0].chnaged.connect(print)

    run(main())
