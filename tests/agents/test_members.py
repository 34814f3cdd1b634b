from __future__ import annotations

import functools
import threading
from collections import OrderedDict, UserDict
from types import SimpleNamespace
from typing import Any

import pytest

from pzc import Signal
from pzc.agents.server import members
from pzc.agents.server.descriptions import description
from pzc.agents.server.tree import Tree


def no_handle(call: object, handle: object) -> object:
    """There are no handles here."""
    raise KeyError(handle)


class Moves:
    """A descriptor without setter; reading it moves hardware."""

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            instance.moved += 1
        return self


class Both(Moves):
    def __set__(self, instance: Any, value: object) -> None:
        instance.moved += 1


class Stage:
    """Every kind of member there is."""

    moves = Moves()
    both = Both()
    units = "mm"
    shared = Signal()

    def __init__(self) -> None:
        self.moved = 0
        self.limits = {"low": 0, "high": 10}
        self.points = [1, 2, 3]
        self.changed = Signal()
        self.raw = bytearray(b"ab")
        self._private = 1

    @property
    def position(self) -> float:
        """Where it is, in mm."""
        self.moved += 1
        return 1.5

    @position.setter
    def position(self, value: float) -> None:
        self.moved += value

    @property
    def serial(self) -> str:
        self.moved += 1
        return "s"

    @functools.cached_property
    def calibrated(self) -> dict[str, int]:
        self.moved += 1
        return {}

    def move(self, to: float, *, fast: bool = False) -> float:
        """Move the stage."""
        return to

    @staticmethod
    def home() -> str:
        return "home"

    @classmethod
    def model(cls) -> str:
        return cls.__name__

    def _move(self, to: float) -> float:
        return to

    move_up = functools.partialmethod(move, 1.0)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def table_of(target: object) -> dict[str, dict[str, Any]]:
    """What is told of all members."""
    return description(target, (), members.names(target), lambda _: {})["members"]


KINDS = {
    "moves": "property", "both": "property", "position": "property", "serial": "property", "calibrated": "property",
    "units": "value", "raw": "value", "moved": "value", "limits": "items", "points": "items", "changed": "signal",
    "shared": "signal", "move": "method", "home": "method", "model": "method", "move_up": "method",
}  # fmt: skip


def test_each_member_has_its_kind_and_nothing_moves(stage: Stage) -> None:
    assert members.kinds(stage, KINDS, members.kind_told) == KINDS
    assert stage.moved == 0


def test_the_table_tells_signature_documentation_and_who_may_write(stage: Stage) -> None:
    table = table_of(stage)
    assert table["move"] == {
        "kind": "method", "doc": "Move the stage.", "signature": "(to: float, *, fast: bool = False) -> float",
    }  # fmt: skip
    assert table["position"] == {
        "kind": "property", "doc": "Where it is, in mm.", "writable": True, "type": "float"
    }  # fmt: skip
    assert (table["serial"]["writable"], table["both"]["writable"], table["moves"]["writable"]) == (
        False,
        True,
        False,
    )


def test_a_member_that_raises_when_looked_at_does_not_hide_the_others() -> None:
    class Broken:
        def __init__(self) -> None:
            self.good = Signal()

        def __getattribute__(self, name: str) -> Any:
            if name == "bad":
                raise RuntimeError("no hardware")
            return super().__getattribute__(name)

        bad = 1

    assert list(table_of(Broken())) == ["good"]
    assert list(Tree(Broken()).topics()) == ["good"]


class Unlisted:
    """Cannot tell what it has."""

    def __dir__(self) -> list[str]:
        raise OSError("no connection")


class Unasked:
    """Cannot be asked for anything."""

    def __getattr__(self, name: str) -> Any:
        raise OSError("no connection")


@pytest.mark.parametrize("broken", [Unlisted(), Unasked()], ids=["dir", "getattr"])
def test_what_cannot_be_looked_at_does_not_hide_the_signals_of_others(broken: object) -> None:
    root = SimpleNamespace(a=broken, good=Signal(), z=SimpleNamespace(better=Signal()))
    assert sorted(Tree(root).topics()) == ["good", "z.better"]


def test_a_slot_that_was_never_set_is_no_member() -> None:
    class Slotted:
        __slots__ = ("empty", "full")

        def __init__(self) -> None:
            self.full = 1

    assert list(table_of(Slotted())) == ["full"]


def test_dynamic_attributes_are_served_though_not_listed() -> None:
    class Dynamic:
        def __getattr__(self, name: str) -> Any:
            if name == "gain":
                return 3
            raise AttributeError(name)

    assert Tree(Dynamic()).find(("gain",), no_handle) == 3
    assert table_of(Dynamic()) == {}


VALUES: list[tuple[object, str]] = [
    (Signal(), "signal"), ({}, "items"), ([], "items"), (UserDict(), "items"), (OrderedDict(), "items"), ((), "value"),
    ("text", "value"), (b"b", "value"), (bytearray(), "value"), (7, "value"), (None, "value"), (set(), "value"),
    (len, "method"), (threading.Thread, "method"), (lambda: 1, "method"),
]  # fmt: skip


def test_the_kind_of_a_value() -> None:
    assert [members.kind_of(value) for value, _ in VALUES] == [kind for _, kind in VALUES]
