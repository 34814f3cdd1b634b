"""A signal is heard by whatever leads to it, and what is none is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from pzc import Agent, MemberRefused, Proxy, Server, Signal

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


class Looked(Channel):
    """A channel that counts how often its members are listed, or its property is read."""

    looks = 0

    def __dir__(self) -> list[str]:
        Looked.looks += 1
        return [*super().__dir__()]

    @property
    def volts(self) -> float:
        """In volts."""
        Looked.looks += 1
        return 1.0


class Station:
    """500 channels."""

    def __init__(self) -> None:
        self.channels = [Looked() for _ in range(500)]


@pytest.fixture
def station() -> Iterator[tuple[Station, Server, Agent]]:
    made = Station()
    with Server(made, discovery=False) as server, Agent(discovery=False) as reader:
        Looked.looks = 0
        yield made, server, reader


@pytest.mark.parametrize("transport", ["inproc", "tcp"])
@pytest.mark.parametrize("topic", ["channels[499].changed", "*", "nothing"])
def test_a_subscription_looks_at_no_member_of_the_other_channels(
    station: tuple[Station, Server, Agent], topic: str, transport: Any
) -> None:
    made, server, reader = station
    with reader.subscribe(server.rep_endpoint, topic, transport=transport) as changes:
        made.channels[499].changed.emit(2.5)
        assert topic == "nothing" or changes.recv(TIMEOUT).content == (2.5,)
    assert Looked.looks == 0


@pytest.mark.parametrize("transport", ["inproc", "tcp"])
def test_a_signal_of_a_later_channel_is_heard_by_its_name(
    station: tuple[Station, Server, Agent], transport: Any
) -> None:
    made, server, reader = station
    made.channels.append(Looked())
    with reader.subscribe(server.rep_endpoint, "channels[500].changed", transport=transport) as changes:
        made.channels[500].changed.emit(2.5)
        assert changes.recv(TIMEOUT).content == (2.5,)


def test_a_signal_in_the_place_of_another_is_heard_by_the_next_subscription(
    station: tuple[Station, Server, Agent],
) -> None:
    made, server, reader = station
    with reader.subscribe(server.rep_endpoint, "channels[0].changed"):
        made.channels[0] = Looked()
        with reader.subscribe(server.rep_endpoint, "channels[0].changed") as changes:
            made.channels[0].changed.emit(2.5)
            assert changes.recv(TIMEOUT).content == (2.5,)


class Guarded:
    """A channel that keeps its signal in a slot, and notes the threads that look it up."""

    __slots__ = ("changed", "looked_up")

    def __init__(self) -> None:
        self.changed = Signal("volts")
        self.looked_up: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name == "changed":
            object.__getattribute__(self, "looked_up").append(threading.current_thread().name)
        return object.__getattribute__(self, name)


def test_a_subscription_runs_no_code_of_what_is_served() -> None:
    channel = Guarded()
    with Server({"a": channel, "b": Rack()}, discovery=False) as server, Agent(discovery=False) as reader:
        channel.looked_up.clear()
        with reader.subscribe(server.rep_endpoint, "a.changed"):
            pass
        assert channel.looked_up == []
