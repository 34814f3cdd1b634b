"""What a server tells of members; annotations of this module are evaluated where they are written."""

import datetime
import enum
import functools
import json
import pickle
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import pzc
from pzc import Signal
from pzc.agents.server.descriptions import description
from pzc.agents.server.members import names


class Range(enum.Enum):
    LOW = 1


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


ODD, UNPRINTABLE, MANY = object(), Unprintable(), range(10**30)


def _marked(function: Any) -> Any:
    pzc.idempotent(function)
    return function


class Scope:
    """An oscilloscope."""

    label = "scope"
    channels: dict[str, "Range"]

    def __init__(self) -> None:
        self.channels = {}
        self.history = [1]
        self.now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        self.triggered = Signal()
        self.triggered.__doc__ = "When it triggers."
        self.armed = Signal()
        self.touched = 0

    @property
    def level(self) -> "np.float64":
        """Trigger level in volts."""
        self.touched += 1
        return np.float64(0)

    @functools.cached_property
    def serial(self) -> str:
        self.touched += 1
        return "s"

    def read(self, count: int, *, at: datetime.datetime | None = None) -> float:
        """Read samples."""
        return float(count)

    def frames(self) -> Iterator[int]:
        yield 1

    async def settle(self) -> None: ...

    async def watch(self) -> AsyncIterator[int]:
        yield 1

    @_marked
    def status(self) -> dict[str, int]:
        return {}

    def bare(self, a, b=None): ...

    def defaults(self, low=Range.LOW, where=Path("/x"), odd=ODD, unprintable=UNPRINTABLE, kind=int, many=MANY):  # fmt: skip
        ...

    def strange(self, a, b, c, d): ...

    strange.__annotations__ |= {
        "a": "some words", "b": "int, str", "c": "int # text", "d": "dict[str,\n int]", "return": "x y",
    }  # fmt: skip

    later = functools.partialmethod(read, 3)


def table_of(thing: object) -> dict[str, dict[str, Any]]:
    return description(thing, (), names(thing), lambda _: {})["members"]


@pytest.fixture
def scope() -> Scope:
    return Scope()


@pytest.fixture
def table(scope: Scope) -> dict[str, dict[str, Any]]:
    return table_of(scope)


def test_no_property_is_run(scope: Scope, table: dict[str, dict[str, Any]]) -> None:
    assert set(table) == {name for name in dir(Scope()) if not name.startswith("_")}
    assert scope.touched == 0


def test_the_table_is_told_alike_by_every_serializer(table: dict[str, dict[str, Any]]) -> None:
    assert json.loads(json.dumps(table)) == table
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(table)) == table
    assert pickle.loads(pickle.dumps(table)) == table


def test_a_method_tells_signature_and_return_type(table: dict[str, dict[str, Any]]) -> None:
    assert table["read"] == {
        "kind": "method",
        "doc": "Read samples.",
        "signature": "(count: int, *, at: datetime.datetime | None = None) -> float",
    }


def test_what_is_not_annotated_is_not_told(table: dict[str, dict[str, Any]]) -> None:
    assert table["bare"] == {"kind": "method", "doc": "", "signature": "(a, b=None)"}


def test_a_partial_method_has_the_arguments_that_are_left(table: dict[str, dict[str, Any]]) -> None:
    assert table["later"]["signature"].startswith("(*, at: datetime.datetime | None = None) -> ")


def test_a_default_that_no_expression_shows_is_three_dots(table: dict[str, dict[str, Any]]) -> None:
    path = type(Path("/x")).__name__
    assert table["defaults"]["signature"] == (
        f"(low=Range.LOW, where={path}('/x'), odd=..., unprintable=..., kind=int, many=range(0, {10**30}))"
    )


def test_an_annotation_that_is_no_expression_cannot_spoil_the_signature(
    table: dict[str, dict[str, Any]],
) -> None:
    assert table["strange"]["signature"] == "(a: ..., b: (int, str), c: int, d: dict[str, int]) -> ..."


def test_a_property_tells_the_type_that_its_getter_returns(table: dict[str, dict[str, Any]]) -> None:
    assert table["level"] == {
        "kind": "property", "doc": "Trigger level in volts.", "writable": False, "type": "np.float64",
    }  # fmt: skip
    assert table["serial"]["type"] == "str"


def test_a_value_tells_its_annotation_or_else_the_type_that_it_has(table: dict[str, dict[str, Any]]) -> None:
    assert table["label"] == {"kind": "value", "type": "str"}
    assert table["now"] == {"kind": "value", "type": "datetime.datetime"}


def test_a_signal_tells_documentation_of_its_own_only(table: dict[str, dict[str, Any]]) -> None:
    assert table["triggered"] == {"kind": "signal", "doc": "When it triggers."}
    assert table["armed"] == {"kind": "signal"}


def test_documentation_is_text_that_every_serializer_takes() -> None:
    def odd() -> None: ...

    odd.__doc__ = "half a pair: \ud800"
    holder = type("Holder", (), {"odd": staticmethod(odd)})()
    assert table_of(holder)["odd"]["doc"] == "half a pair: \\ud800"


def test_a_member_that_cannot_be_described_is_told_by_its_kind() -> None:
    class Hostile:
        def __call__(self) -> None: ...

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("go away")

    class Bad:
        __signature__ = 3

        def __call__(self) -> None: ...

    holder = type("Holder", (), {"hostile": Hostile(), "bad": Bad(), "good": 1})()
    table = table_of(holder)
    assert table["bad"]["kind"] == "reference"
    assert table["good"] == {"kind": "value", "type": "int"}
