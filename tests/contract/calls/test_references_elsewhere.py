"""References away from where they came from: at other servers, in attached calls, behind properties."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import CallTimeout, Protocol, Proxy, Refused, Server, Signal, attach, batch, close

from tests.contract.rigs.supply import KEY, TIMEOUT

CARRIERS = pytest.mark.parametrize("transport", ["unix", "tcp"])


class Channel:
    """One output."""

    def __init__(self) -> None:
        self.changed = Signal()
        self.volts = 0.0

    def off(self) -> str:
        """Switch it off."""
        return "off"


class Rack:
    """Gives its channel in every way."""

    def __init__(self) -> None:
        self.ch1 = Channel()
        self.opened = threading.Event()

    @property
    def first(self) -> Channel:
        """The channel."""
        return self.ch1

    @property
    def all(self) -> list[Channel]:
        """In a list."""
        return [self.ch1]

    @property
    def slow(self) -> Channel:
        """After a while."""
        self.opened.wait(TIMEOUT)
        return self.ch1

    def find(self) -> Channel:
        """By a method."""
        return self.ch1


class Desk:
    """Works with what it is given."""

    def __init__(self) -> None:
        self.held: Any = None

    def switch(self, *outputs: Any) -> list[str]:
        """Switch all of them off."""
        return [output.off() for output in outputs]

    def keep(self, output: Any) -> str:
        """Hold it, and do nothing with it."""
        self.held = output
        return repr(output)

    def set(self, volts: float) -> None:
        """Use what is held."""
        self.held.volts = volts

    def give(self) -> Any:
        """What is held."""
        return self.held


@contextmanager
def proxied(served: object, transport: str = "tcp") -> Iterator[Any]:
    with Server(served, protocol=Protocol(KEY)) as server:
        with Proxy(
            server.rep_endpoint, protocol=Protocol(KEY), transport=transport, timeout=TIMEOUT
        ) as proxy:
            yield proxy


@CARRIERS
def test_a_reference_of_another_server_is_used_there(transport: str) -> None:
    with proxied(Rack(), transport) as rack, proxied(Desk(), transport) as desk:
        assert desk.switch(rack.ch1, rack.first, rack.all[0], rack.find()) == ["off"] * 4


@CARRIERS
def test_a_reference_of_another_server_connects_at_its_first_use(transport: str) -> None:
    served, holding = Rack(), Desk()
    with proxied(served, transport) as rack, proxied(holding, transport) as desk:
        assert desk.keep(rack.ch1).startswith("<ch1 of tcp://")
        desk.set(3.0)
        assert served.ch1.volts == 3.0
        assert desk.give().volts == 3.0
        holding.held = None


def test_a_reference_of_another_server_goes_by_futures_and_batches() -> None:
    with proxied(Rack()) as rack, proxied(Desk()) as desk:
        assert desk.switch.future(rack.ch1).result(TIMEOUT) == ["off"]
        with batch(desk) as calls:
            calls.switch(rack.ch1)
        assert calls.results == [["off"]]


@CARRIERS
def test_a_proxy_that_comes_in_a_set_is_not_connected_by_that(transport: str) -> None:
    with proxied(Desk(), transport) as desk:
        with proxied(Rack()) as rack:
            desk.keep({rack})
        (found,) = desk.give.future().result(TIMEOUT)
        assert repr(found).startswith("<Proxy of tcp://")
        assert {found} == desk.give()


def test_a_proxy_has_one_hash_before_and_after_it_is_connected() -> None:
    with proxied(Rack()) as rack, proxied(Desk()) as desk:
        desk.keep(rack)
        found = desk.give()
        numbers = {found: 1}
        assert found.find().off() == "off"
        assert numbers[found] == numbers[rack] == 1
        close(found)


@CARRIERS
@pytest.mark.parametrize("way", ["ch1", "first", "all", "find"])
def test_a_signal_is_heard_by_whichever_way_its_object_is_reached(transport: str, way: str) -> None:
    served = Rack()
    with proxied(served, transport) as rack:
        found = {"ch1": lambda: rack.ch1, "first": lambda: rack.first}
        found |= {"all": lambda: rack.all[0], "find": lambda: rack.find()}
        with found[way]().changed.subscribe() as changes:
            served.ch1.changed.emit(1.5, 0.0)
            assert changes.recv(TIMEOUT).content[0] == 1.5


def test_a_signal_behind_a_property_is_that_of_what_the_property_gives_now() -> None:
    served = Rack()
    with proxied(served) as rack, rack.first.changed.subscribe() as changes:
        served.ch1 = Channel()
        with rack.first.changed.subscribe() as others:
            served.ch1.changed.emit(2.5, 0.0)
            assert [each.recv(TIMEOUT).content[0] for each in (changes, others)] == [2.5, 2.5]


def test_a_call_that_gave_a_reference_can_be_attached() -> None:
    served = Rack()
    with (
        proxied(served) as rack,
        Proxy(rack_endpoint(rack), protocol=Protocol(KEY), transport="tcp", timeout=0.2) as hasty,
    ):
        with pytest.raises(CallTimeout) as caught:
            _ = hasty.slow
        served.opened.set()
        found = attach(caught.value.call_id, protocol=Protocol(KEY)).result(TIMEOUT)
        found.volts = 4.0
        assert served.ch1.volts == 4.0


def rack_endpoint(rack: Any) -> str:
    return repr(rack).rpartition(" ")[2].rstrip(">")


def test_what_is_kept_for_who_called_is_refused_to_who_attaches() -> None:
    with proxied(Rack()) as rack:
        future = rack.find.future()
        assert future.result(TIMEOUT).off() == "off"
        with pytest.raises(Refused, match="kept for the process that called"):
            attach(future.call_id, protocol=Protocol(KEY)).result(TIMEOUT)
