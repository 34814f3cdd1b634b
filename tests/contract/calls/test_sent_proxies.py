"""Proxies that are sent: as arguments, as results, and lazily."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import pzc

TRANSPORTS = ("unix", "tcp")


class Supply:
    """Has a voltage."""

    voltage = 1.0


class Desk:
    """Works with proxies that it is given."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def read(self, *proxies: Any) -> list[float]:
        """Voltages of all."""
        return [each.voltage for each in proxies]

    def keep(self, proxy: Any) -> str:
        """Hold a proxy, and do nothing with it."""
        self.held = proxy
        return repr(proxy)

    def give(self) -> Any:
        """The proxy that is held."""
        return self.held

    def each(self) -> Iterator[Any]:
        """The same, in a stream."""
        yield self.held


class BySerializer(NamedTuple):
    """How the two sides of a test talk."""

    key: str
    serializer: str


MANNERS = [
    BySerializer(key, name) for name in ("pickle", "json", "msgpack") for key in ("", "a key of this test")
]


@pytest.mark.parametrize("manner", MANNERS, ids=lambda each: f"{each.serializer} {'signed' * bool(each.key)}")
def test_a_proxy_goes_as_argument_and_as_result_by_every_way(manner: BySerializer) -> None:
    protocol = pzc.Protocol(manner.key, serializer=manner.serializer)
    desk = Desk()
    with (
        pzc.Server(Supply(), protocol=protocol) as supplying,
        pzc.Server(desk, protocol=protocol) as serving,
        pzc.Proxy(supplying.rep_endpoint, protocol=protocol) as psu,
    ):
        for transport in TRANSPORTS:
            with pzc.Proxy(serving.rep_endpoint, protocol=protocol, transport=transport) as proxy:
                for _ in range(4):  # quick ways are taken by what has proved quick
                    assert proxy.read(psu, psu) == [1.0, 1.0]
                assert proxy.read.future(psu).result(10.0) == [1.0]
                assert psu_of(proxy.keep(psu)) == supplying.rep_endpoint
                for given in (proxy.give(), proxy.held):
                    assert type(given) is pzc.Proxy
                    assert given.voltage == 1.0
                    pzc.close(given)
                assert proxy.read(proxy.give()) == [1.0]
        pzc.close(desk.held)


def psu_of(text: str) -> str:
    """The target in the text of a proxy."""
    return text.removeprefix("<Proxy of ").removesuffix(">")


def test_a_proxy_that_was_sent_connects_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TIMEOUT", "0.5")
    desk = Desk()
    with pzc.Server(Supply()) as supplying:
        gone = pzc.Proxy(supplying.rep_endpoint)
    with gone, pzc.Server(desk) as serving, pzc.Proxy(serving.rep_endpoint, timeout=10.0) as proxy:
        assert supplying.rep_endpoint in proxy.keep(gone)
        assert supplying.rep_endpoint in repr(proxy.give())
        with pytest.raises(pzc.PeerLost):
            proxy.read(gone)
        pzc.close(desk.held)
        with pytest.raises(pzc.AgentClosed):
            _ = desk.held.voltage
