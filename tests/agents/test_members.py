from __future__ import annotations

import functools
import threading
from collections import OrderedDict, UserDict
from typing import Any

import pytest

from pzc import MemberRefused, Signal
from pzc.agents.serving.members import ITEM_METHODS, Members, kind_of, options_of


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


@pytest.fixture
def members(stage: Stage) -> Members:
    return Members(stage)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("moves", "property"), ("both", "property"), ("position", "property"), ("serial", "property"),
        ("calibrated", "property"), ("units", "value"), ("raw", "value"), ("moved", "value"), ("limits", "items"),
        ("points", "items"), ("changed", "signal"), ("shared", "signal"), ("move", "method"), ("home", "method"),
        ("model", "method"), ("move_up", "method"),
    ],
)  # fmt: skip
def test_each_member_has_its_kind_and_nothing_moves(
    stage: Stage, members: Members, name: str, kind: str
) -> None:
    assert members.kind(name) == kind
    assert stage.moved == 0


def test_the_table_lists_every_public_member_and_nothing_moves(stage: Stage, members: Members) -> None:
    assert set(members.table()) == {name for name in dir(stage) if not name.startswith("_")}
    assert stage.moved == 0


def test_the_table_tells_signature_documentation_and_who_may_write(members: Members) -> None:
    table = members.table()
    assert table["move"] == {
        "kind": "method", "doc": "Move the stage.", "signature": "(to: float, *, fast: bool = False) -> float",
        "returns": "float",
    }  # fmt: skip
    assert table["position"] == {
        "kind": "property", "doc": "Where it is, in mm.", "writable": True, "type": "float"
    }  # fmt: skip
    assert (table["serial"]["writable"], table["both"]["writable"], table["moves"]["writable"]) == (
        False,
        True,
        False,
    )


@pytest.mark.parametrize("name", ["_private", "_move", "__class__", "__init__", "__dict__", "__reduce__"])
def test_a_name_that_begins_with_an_underscore_is_never_served(members: Members, name: str) -> None:
    for use in (
        lambda: members.get(name),
        lambda: members.value(name),
        lambda: members.set(name, 1),
        lambda: members.run(name, "__call__", (), {}),
    ):
        with pytest.raises(MemberRefused, match="is private"):
            use()
    assert name not in members.table()


@pytest.mark.parametrize(
    "name", ["", "a.b", "limits.clear", "a b", "1", None, 7, b"move", ["move"], "x" * 500 + "."]
)
def test_what_is_no_name_is_refused(members: Members, name: object) -> None:
    with pytest.raises(MemberRefused, match="is not the name of a member"):
        members.get(name)


def test_expose_narrows_everything(stage: Stage) -> None:
    members = Members(stage, expose=["move", "changed"])
    assert members.names() == ["changed", "move"]
    assert list(members.signals()) == ["changed"]
    assert members.run("move", "__call__", (1.0,), {}) == 1.0
    for use in (lambda: members.get("limits"), lambda: members.set("units", "m")):
        with pytest.raises(MemberRefused, match="is not exposed"):
            use()


def test_exposing_a_private_name_does_not_serve_it(stage: Stage) -> None:
    members = Members(stage, expose=["_move", "_private"])
    assert members.names() == []
    with pytest.raises(MemberRefused, match="is private"):
        members.get("_private")


def test_properties_are_read_and_set(stage: Stage, members: Members) -> None:
    assert members.get("position") == 1.5
    members.set("position", 4)
    assert stage.moved == 5


def test_a_value_is_set(stage: Stage, members: Members) -> None:
    members.set("units", "m")
    assert stage.units == "m"


@pytest.mark.parametrize("name", ["move", "home", "model", "move_up", "changed", "shared"])
def test_methods_and_signals_cannot_be_replaced(members: Members, name: str) -> None:
    with pytest.raises(MemberRefused, match="cannot be set"):
        members.set(name, 1)


def test_a_property_without_setter_says_so(members: Members) -> None:
    with pytest.raises(AttributeError, match="no setter"):
        members.set("serial", "x")


@pytest.mark.parametrize("name", ["move", "changed", "home"])
def test_methods_and_signals_are_not_sent_by_value(members: Members, name: str) -> None:
    with pytest.raises(MemberRefused, match="is not sent by value"):
        members.value(name)


@pytest.mark.parametrize(
    ("operation", "args", "result"),
    [
        ("__getitem__", ("low",), 0), ("__setitem__", ("low", 1), None), ("__delitem__", ("low",), None),
        ("__len__", (), 2), ("__contains__", ("low",), True), ("__iter__", (), ["low", "high"]),
        ("keys", (), ["low", "high"]), ("values", (), [0, 10]), ("items", (), [("low", 0), ("high", 10)]),
        ("get", ("x", 5), 5), ("copy", (), {"low": 0, "high": 10}),
    ],
)  # fmt: skip
def test_a_mapping_offers_these_operations(
    members: Members, operation: str, args: tuple[Any, ...], result: object
) -> None:
    assert members.run("limits", operation, args, {}) == result


@pytest.mark.parametrize(
    "operation",
    [
        "__class__", "__init__", "__reduce__", "__reduce_ex__", "__getattribute__", "__setattr__", "__dict__", "__get__",
        "__set__", "clear", "pop", "update", "sort", "", None, 7, ["keys"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["limits", "points", "move", "changed", "units", "position"])
def test_no_other_operation_is_allowed_on_any_member(members: Members, name: str, operation: object) -> None:
    with pytest.raises(MemberRefused, match="does not allow"):
        members.run(name, operation, (), {})


@pytest.mark.parametrize("operation", sorted(ITEM_METHODS))
def test_item_operations_are_for_members_with_items_only(members: Members, operation: str) -> None:
    for name in ("move", "changed", "model"):
        with pytest.raises(MemberRefused):
            members.run(name, operation, (1,), {})


def test_a_value_cannot_be_called(members: Members) -> None:
    with pytest.raises(MemberRefused, match="'units' is a value and does not allow '__call__'"):
        members.run("units", "__call__", (), {})


def test_a_signal_is_emitted(stage: Stage, members: Members) -> None:
    seen: list[tuple[Any, ...]] = []
    stage.changed.connect(lambda *args: seen.append(args))
    members.run("changed", "emit", (1, 2), {})
    assert seen == [(1, 2, None)]


def test_a_member_that_raises_when_looked_at_does_not_hide_the_others() -> None:
    class Broken:
        def __init__(self) -> None:
            self.good = Signal()

        def __getattribute__(self, name: str) -> Any:
            if name == "bad":
                raise RuntimeError("no hardware")
            return super().__getattribute__(name)

        bad = 1

    members = Members(Broken())
    assert list(members.table()) == ["good"]
    assert list(members.signals()) == ["good"]


def test_a_slot_that_was_never_set_is_no_member() -> None:
    class Slotted:
        __slots__ = ("empty", "full")

        def __init__(self) -> None:
            self.full = 1

    assert list(Members(Slotted()).table()) == ["full"]


def test_dynamic_attributes_are_served_though_not_listed() -> None:
    class Dynamic:
        def __getattr__(self, name: str) -> Any:
            if name == "gain":
                return 3
            raise AttributeError(name)

    members = Members(Dynamic())
    assert members.get("gain") == 3
    assert members.table() == {}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Signal(), "signal"), ({}, "items"), ([], "items"), (UserDict(), "items"), (OrderedDict(), "items"), ((), "value"),
        ("text", "value"), (b"b", "value"), (bytearray(), "value"), (7, "value"), (None, "value"), (set(), "value"),
        (len, "method"), (threading.Thread, "method"), (lambda: 1, "method"),
    ],
)  # fmt: skip
def test_the_kind_of_a_value(value: object, kind: str) -> None:
    assert kind_of(value) == kind


@pytest.mark.parametrize("options", [None, [], "name", 7, ("name", "x")])
def test_options_must_be_a_mapping(options: object) -> None:
    with pytest.raises(MemberRefused, match="options must be a mapping"):
        options_of(options)
