"""Arrays and frames of a call belong to whoever receives them: they may be written, whichever way they came."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pzc import PendingCall, Protocol, Proxy, Server, aio, attach, batch

from tests.contract.rigs.calling import KEY, TIMEOUT

SIZES = [8, 20_000, 300_000]


class Scope:
    """A driver that works in place on what it is given."""

    def __init__(self) -> None:
        self.wave: Any = None

    def normalise(self, trace: Any) -> float:
        trace /= trace.max()
        return float(trace[-1])

    def normalise_in(self, traces: dict[str, Any]) -> float:
        return self.normalise(traces["a"])

    def start(self) -> None:
        self.wave[0] = 5.0

    def trace(self, size: int) -> Any:
        return np.arange(1.0, size + 1)

    def received(self, size: int) -> Any:
        return np.frombuffer(bytes(8 * size))

    def kept(self, size: int) -> Any:
        trace = self.trace(size)
        trace.flags.writeable = False
        return trace

    def held(self, size: int) -> dict[str, Any]:
        return {"a": self.received(size), "b": [self.trace(size)]}

    def traces(self, size: int) -> Iterator[Any]:
        for _ in range(2):
            yield self.trace(size)

    def clip(self, frame: Any) -> float:
        frame.iloc[0, 0] = 7.0
        return float(frame.iloc[0, 0])

    def frame(self, size: int) -> Any:
        import pandas

        return pandas.DataFrame({"volts": self.received(size), "on": np.zeros(size, bool)})


WAYS: dict[str, tuple[str, str, str]] = {
    "unix": ("", "pickle", "unix"),
    "tcp": ("", "pickle", "tcp"),
    "unix signed": (KEY, "pickle", "unix"),
    "tcp signed": (KEY, "pickle", "tcp"),
    "json": ("", "json", "tcp"),
    "msgpack": ("", "msgpack", "unix"),
    "old pickle": (KEY, "pickle2", "tcp"),
}


@pytest.fixture(params=WAYS)
def scope(request: pytest.FixtureRequest) -> Iterator[Any]:
    key, serializer, transport = WAYS[request.param]
    protocol = Protocol(key, serializer)
    with (
        Server(Scope(), protocol=protocol) as server,
        Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT, transport=transport) as proxy,
    ):
        yield proxy


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("PZC_KEY", KEY)
    monkeypatch.setenv("PZC_SEAL", "1")
    with Server(Scope()) as server, Proxy(server.rep_endpoint, timeout=TIMEOUT, transport="tcp") as proxy:
        yield proxy


def write(array: Any) -> None:
    array[0] = 3.0
    assert array[0] == 3.0


def uses(scope: Any, size: int) -> None:
    """Every use of a call that carries arrays."""
    assert scope.normalise(np.arange(float(size))) == 1.0
    assert scope.normalise_in({"a": np.arange(float(size))}) == 1.0
    scope.wave = np.zeros(size)
    scope.start()
    write(scope.trace(size))
    write(scope.received(size))
    held = scope.held(size)
    write(held["a"])
    write(held["b"][0])
    for trace in scope.traces(size):
        write(trace)
    write(scope.trace.future(size).result(TIMEOUT))
    with batch(scope) as calls:
        calls.trace(size)
        calls.received(size)
    for result in calls.results:
        write(result)


@pytest.mark.parametrize("size", SIZES)
def test_arrays_of_a_call_may_be_written(scope: Any, size: int) -> None:
    uses(scope, size)


@pytest.mark.parametrize("size", SIZES)
def test_arrays_of_a_sealed_call_may_be_written(sealed: Any, size: int) -> None:
    uses(sealed, size)


@pytest.mark.parametrize("size", SIZES)
def test_a_read_only_argument_may_be_written_where_it_arrives(scope: Any, size: int) -> None:
    trace = np.arange(float(size))
    trace.flags.writeable = False
    assert scope.normalise(trace) == 1.0
    assert trace[-1] == size - 1


@pytest.mark.parametrize("size", SIZES)
def test_a_read_only_result_may_be_written_however_often_it_was_called(scope: Any, size: int) -> None:
    for _ in range(8):  # a call that has proved quick takes another way
        write(scope.kept(size))


@pytest.mark.parametrize("size", SIZES)
def test_frames_of_a_call_may_be_written(scope: Any, size: int) -> None:
    pandas = pytest.importorskip("pandas")
    assert scope.clip(pandas.DataFrame({"a": np.zeros(size)})) == 7.0
    frame = scope.frame(size)
    frame.iloc[0, 0] = 3.0
    assert frame.iloc[0, 0] == 3.0


@pytest.mark.parametrize("size", SIZES)
def test_an_awaited_array_may_be_written(size: int) -> None:
    async def written(endpoint: str) -> None:
        async with aio.Proxy(endpoint, timeout=TIMEOUT) as scope:
            write(await scope.trace(size))
            write((await scope.held(size))["a"])
            async for trace in await scope.traces(size):
                write(trace)

    with Server(Scope()) as server:
        asyncio.run(written(server.rep_endpoint))


@pytest.mark.parametrize("size", SIZES[:2])
def test_an_array_that_is_fetched_again_is_whole_and_may_be_written(size: int) -> None:
    with Server(Scope()) as server, Proxy(server.rep_endpoint, timeout=TIMEOUT) as scope:
        call: PendingCall = scope.trace.future(size)
        write(call.result(TIMEOUT))
        again = attach(call.call_id).result(TIMEOUT)
        assert again[0] == 1.0
        write(again)
