"""An argument that cannot be sent raises at the caller, and costs neither the call's connection nor anything else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Proxy, SerializeError, Server

from tests.contract.rigs.calling import TIMEOUT


class Adder:
    def add(self, *values: Any) -> int:
        return len(values)


@pytest.fixture(params=["unix", "tcp"])
def adder(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Any]]:
    with (
        Server(Adder()) as server,
        Proxy(server.rep_endpoint, timeout=TIMEOUT, transport=request.param) as proxy,
    ):
        yield server, proxy


@pytest.mark.parametrize(
    "value", [threading.Lock(), lambda: 1, [(each for each in ())]], ids=["lock", "function", "inside"]
)
def test_an_argument_that_cannot_be_pickled_leaves_the_connection_as_it_was(
    adder: tuple[Server, Any], value: object
) -> None:
    server, proxy = adder
    proxy.add(1)
    before = server.statistics()["counts"]
    for _ in range(5):
        with pytest.raises(SerializeError):
            proxy.add(value)
        assert proxy.add(1) == 1
    after = server.statistics()["counts"]
    assert after.get("fast_lane_connections") == before.get("fast_lane_connections")
