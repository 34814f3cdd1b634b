"""Members: what can be set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pzc
from pzc.testing import command

from tests.contract.rigs import pizco

TRANSPORTS = ("unix", "tcp")


class Supply:
    """Has an attribute of every usual sort."""

    __slots__ = ("__dict__", "empty")
    limit = 1.0

    def __init__(self) -> None:
        self.voltage = 1.0
        self._current = 0.5
        self.changed = pzc.Signal()

    @property
    def current(self) -> float:
        """With a setter."""
        return self._current

    @current.setter
    def current(self, value: float) -> None:
        self._current = value

    @property
    def serial(self) -> str:
        """Without a setter."""
        return "X1"

    def off(self) -> None:
        """Do nothing."""


class Dynamic:
    """A driver that maps names to registers."""

    def __init__(self) -> None:
        self.__dict__["registers"] = {"gain": 1}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["registers"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["registers"][name] = value


class Naming(Dynamic):
    """A driver whose registers can only be written, and which names them."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        return ["registers", "gain"]


@pytest.fixture
def supply() -> Iterator[tuple[Supply, pzc.Proxy]]:
    served = Supply()
    with pzc.Server(served) as server, pzc.Proxy(server.rep_endpoint) as proxy:
        yield served, proxy


def by_batch(proxy: pzc.Proxy) -> None:
    """Set as one of several calls."""
    with pzc.batch(proxy) as calls:
        calls.volage = 3


def by_aio(endpoint: str) -> None:
    """Set by the awaitable face."""

    async def main() -> None:
        async with pzc.aio.Proxy(endpoint) as proxy:
            await proxy.volage.set(3)

    asyncio.run(main())


def test_a_misspelt_member_cannot_be_set_and_the_nearest_name_is_told() -> None:
    served = Supply()
    with pzc.Server(served) as server:
        for transport in TRANSPORTS:
            with pzc.Proxy(server.rep_endpoint, transport=transport) as proxy:
                for attempt in (lambda: setattr(proxy, "volage", 3), lambda: by_batch(proxy)):
                    for _ in range(5):  # quick ways are taken by what has proved quick
                        with pytest.raises(pzc.MemberRefused, match=r"'volage'.*Supply.*voltage"):
                            attempt()
        with pytest.raises(pzc.MemberRefused, match="voltage"):
            by_aio(server.rep_endpoint)
        outcome = command("set", f"{server.rep_endpoint}.volage", "3")
        assert (outcome.status, "voltage" in outcome.err) == (1, True)
    assert not hasattr(served, "volage")


def test_an_original_cannot_set_what_is_not_there() -> None:
    served = Supply()
    with pzc.Server(served) as server, pizco.Client(b"", server.rep_endpoint) as original:
        original.request("setattr", {"name": "voltage", "value": 2.0})
        with pytest.raises(AttributeError, match="voltage"):
            original.request("setattr", {"name": "volage", "value": 3})
    assert (served.voltage, hasattr(served, "volage")) == (2.0, False)


@pytest.mark.parametrize("name", ["voltage", "limit", "current", "empty"])
def test_what_exists_can_be_set(supply: tuple[Supply, pzc.Proxy], name: str) -> None:
    served, proxy = supply
    setattr(proxy, name, 7.5)
    assert getattr(served, name) == getattr(proxy, name) == 7.5
    assert Supply.limit == 1.0


def test_a_property_without_a_setter_a_method_and_a_signal_cannot_be_set(
    supply: tuple[Supply, pzc.Proxy],
) -> None:
    _, proxy = supply
    for name in ("serial", "off", "changed"):
        with pytest.raises(AttributeError):
            setattr(proxy, name, 7.5)


@pytest.mark.parametrize("driver", [Dynamic, Naming])
def test_a_dynamic_driver_is_asked_what_there_is(driver: Callable[[], Dynamic]) -> None:
    served = driver()
    with pzc.Server(served) as server, pzc.Proxy(server.rep_endpoint) as proxy:
        proxy.gain = 5
        with pytest.raises(pzc.MemberRefused, match=r"'gian' cannot be set"):
            proxy.gian = 6
    assert served.__dict__["registers"] == {"gain": 5}


class Rack:
    """Has a supply inside."""

    def __init__(self) -> None:
        self.ch1 = Supply()


def test_a_misspelt_member_of_a_channel_cannot_be_set_and_the_nearest_name_is_told() -> None:
    rack = Rack()
    with pzc.Server(rack) as server, pzc.Proxy(server.rep_endpoint) as proxy:
        with pytest.raises(pzc.MemberRefused, match=r"'volage'.*voltage"):
            proxy.ch1.volage = 3
        assert not hasattr(rack.ch1, "volage")
