"""Values: what leaves an object as a copy, and what stays where it is."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import pathlib
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import pzc

from tests.contract.rigs import pizco

TRANSPORTS = ("unix", "tcp")


class Channel:
    """An object with a method of its own."""

    def __init__(self) -> None:
        self.voltage = 1.0

    def off(self) -> None:
        """Do nothing."""


class Settings:
    """An object without any method, whose attributes could be set in a copy."""

    def __init__(self) -> None:
        self.range = 1.0


@dataclass
class Motor:
    """A dataclass with a property."""

    position: float = 0.0

    @property
    def moving(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True)
class Rack:
    """A frozen dataclass that holds an object."""

    first: Channel


@dataclass(frozen=True)
class Reading:
    """A frozen dataclass with a method."""

    volts: float

    def rounded(self) -> float:
        """Of the volts."""
        return round(self.volts)


@dataclass
class Limits:
    """A dataclass without methods."""

    low: float
    high: float


class Point(NamedTuple):
    """A named tuple with a property."""

    x: float
    y: list[float]

    @property
    def both(self) -> float:
        """The sum."""
        return self.x + sum(self.y)


class Mode(enum.Enum):
    """An enum with a method."""

    DC = 1

    def text(self) -> str:
        """In small letters."""
        return self.name.lower()


@pzc.register_class
class Trace:
    """A class that may be copied, because somebody said so."""

    def __init__(self, points: list[float]) -> None:
        self.points = points

    def longest(self) -> int:
        """Number of points."""
        return len(self.points)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and other.points == self.points

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Named(dict[str, float]):
    """A mapping that adds nothing."""


REFERENCES: dict[str, Callable[[], Any]] = {
    "object": Channel,
    "without methods": Settings,
    "dataclass with a property": Motor,
    "frozen dataclass with an object": lambda: Rack(Channel()),
    "list": lambda: [1, Channel()],
    "tuple": lambda: (Channel(),),
    "value of a dict": lambda: {"a": {"b": Channel()}},
    "array": lambda: np.array([Channel()], dtype=object),
    "class": lambda: Channel,
    "lock": threading.Lock,
}

HELD = {"list", "mapping", "value of a dict", "class"}
"""Of these an attribute is held, and nothing of it copied."""

VALUES: dict[str, Any] = {
    "number": 1.5,
    "list": [1, [2.5, None], {"a": (True, b"c")}, {3}],
    "date": dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC),
    "decimal": decimal.Decimal("1.50"),
    "uuid": uuid.UUID(int=7),
    "path": pathlib.PurePosixPath("/a/b"),
    "array": np.arange(3.0),
    "scalar": np.float32(1.5),
    "exception": ValueError("too hot"),
    "enum": Mode.DC,
    "named tuple": Point(1.0, [2.0]),
    "frozen dataclass": Reading(1.5),
    "dataclass without methods": Limits(0.0, 1.0),
    "registered": Trace([1.0, 2.0]),
    "mapping": Named(a=1.0),
    "frame": pd.DataFrame({"a": [1, 2]}),
}


class Bench:
    """Has and gives what the test puts there."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.table = {"held": held}
        self._held = held

    @property
    def computed(self) -> Any:
        """The same."""
        return self._held

    def give(self) -> Any:
        """The same."""
        return self._held

    async def give_later(self) -> Any:
        """The same."""
        return self._held

    def promise(self) -> Any:
        """The same, in a future."""
        future: Future[Any] = Future()
        future.set_result(self._held)
        return future

    def each(self) -> Iterator[Any]:
        """The same, in a stream."""
        yield self._held


def batched(proxy: pzc.Proxy, read: Callable[[Any], object]) -> Any:
    """The only result of a batch."""
    with pzc.batch(proxy) as calls:
        read(calls)
    return calls.results[0]


ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda proxy: proxy.held,
    "property": lambda proxy: proxy.computed,
    "batch": lambda proxy: batched(proxy, lambda calls: calls.computed),
}
RESULTS: dict[str, Callable[[Any], Any]] = {
    "item": lambda proxy: proxy.table["held"],
    "copy": lambda proxy: proxy.table.copy()["held"],
    "method": lambda proxy: proxy.give(),
    "coroutine": lambda proxy: proxy.give_later(),
    "future": lambda proxy: proxy.promise().result(10.0),
    "bundle": lambda proxy: proxy.give.future().result(10.0),
    "stream": lambda proxy: next(proxy.each()),
}
SIGNED = pzc.Protocol("a key that both sides of this test have")


@contextmanager
def proxies(held: Any, protocol: pzc.Protocol) -> Iterator[Iterator[pzc.Proxy]]:
    """A proxy by two ways, of a bench that holds something."""

    def each() -> Iterator[pzc.Proxy]:
        for transport in ("unix", "tcp"):
            with pzc.Proxy(server.rep_endpoint, transport=transport, protocol=protocol) as proxy:
                yield proxy

    with pzc.Server(Bench(held), protocol=protocol) as server:
        yield each()


@pytest.mark.parametrize("what", REFERENCES)
def test_what_is_no_value_stays_where_it_is_on_every_way(what: str) -> None:
    with proxies(REFERENCES[what](), SIGNED) as all_ways:
        for proxy in all_ways:
            for way, read in {**ATTRIBUTES, **RESULTS}.items():
                assert isinstance(read(proxy), pzc.RemoteReference | pzc.Member), way


@pytest.mark.parametrize("what", VALUES)
def test_what_is_a_value_goes_by_value_on_every_way(what: str) -> None:
    held = VALUES[what]
    with proxies(held, SIGNED) as all_ways:
        for proxy in all_ways:
            for way, read in {**({} if what in HELD else ATTRIBUTES), **RESULTS}.items():
                found = read(proxy)
                assert type(found) is type(held), way
                assert pickle.dumps(found) == pickle.dumps(held) or repr(found) == repr(held), way


def test_a_client_sets_nothing_in_a_copy_of_its_own() -> None:
    channel = Channel()
    with proxies(channel, SIGNED) as all_ways:
        for number, proxy in enumerate(all_ways):
            proxy.held.voltage = number
            assert channel.voltage == number


class Table:
    """A mapping, a tuple and a method."""

    def __init__(self) -> None:
        self.limits = {"low": 1.0}
        self.levels = (1.0, 2.0)
        self.name = "table"

    @property
    def computed(self) -> dict[str, float]:
        """The mapping."""
        return self.limits

    def off(self) -> int:
        """Do nothing."""
        return 0


class Turned(pzc.Server):
    """Sends mappings by value, and holds tuples."""

    def return_as_remote(self, attribute: object) -> bool:
        """Tuples, and what is called."""
        return isinstance(attribute, tuple) or callable(attribute)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_return_as_remote_is_obeyed(transport: str) -> None:
    table = Table()
    with Turned(table) as server, pzc.Proxy(server.rep_endpoint, transport=transport) as proxy:
        assert (proxy.limits, proxy.computed, proxy.name) == ({"low": 1.0}, {"low": 1.0}, "table")
        assert isinstance(proxy.levels, pzc.RemoteReference)
        assert (proxy.levels[1], len(proxy.levels), proxy.off()) == (2.0, 2, 0)
        assert batched(proxy, lambda calls: calls.limits) == {"low": 1.0}
        with pizco.Client(b"", server.rep_endpoint) as original:
            remotes, _ = original.request("inspect", {})
            assert remotes == {"levels", "off"}
            assert original.request("get", {"name": "limits"}) == {"low": 1.0}
