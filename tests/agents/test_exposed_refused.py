from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc import (
    MemberRefused,
    Refused,
    RemoteProtocolError,
    Role,
    RoleRefused,
)
from pzc.protocol.errors import ConfigError

from tests.agents.rack import Mode, Rack, Reading
from tests.agents.serving_calls import Asker, Exposure, key_of


@pytest.fixture
def rack() -> Rack:
    return Rack()


@pytest.fixture
def ask(rack: Rack) -> Iterator[Exposure]:
    exposure = Exposure(rack)
    yield exposure
    exposure.coroutines.close()


# What is refused


@pytest.mark.parametrize("on", [("ch1",), ("channels", (0,)), ("bank", (0,)), ("selected",)])
def test_what_is_not_there_cannot_be_set_and_the_nearest_name_is_told(ask: Exposure, on: Any) -> None:
    for options in ({"on": on, "name": "volage", "value": 3}, {"on": (*on, "volage"), "value": 3}):
        with pytest.raises(MemberRefused, match=r"'volage'.*Channel.*voltage"):
            ask("setattr", options)
    with pytest.raises(MemberRefused, match="voltage"):
        ask.get(*on, "volage")
    with pytest.raises(MemberRefused, match="is a method"):
        ask("setattr", {"on": on, "name": "off", "value": 3})


@pytest.mark.parametrize("name", ["_secret", "__class__", "__init__", "__dict__"])
def test_what_is_private_neither_leaves_nor_enters_at_any_depth(ask: Exposure, name: str) -> None:
    for on in ((), ("ch1",), ("channels", (0,)), ("ch1", "level")):
        for action in ("get", "getattr", "setattr", "exec", "describe"):
            for options in ({"on": on, "name": name}, {"on": (*on, name)}, {"on": (*on, name, "x")}):
                with pytest.raises(MemberRefused, match="private"):
                    ask(action, {**options, "value": 1})


@pytest.mark.parametrize(
    "path",
    [
        ("threading", "Thread"), ("off", "real"), ("ch1", "number", "real"), ("mode", "name", "upper"),
        ("ch1", ("a",)), ("ch1", "number", (0,)), ("each", "gi_frame"),
    ],
)  # fmt: skip
def test_no_path_leads_out_of_an_instrument(ask: Exposure, path: Any) -> None:
    with pytest.raises(MemberRefused):
        ask.get(*path)


@pytest.mark.parametrize(
    "options", [None, 7, "text", [], {"name": 7}, {"name": ["a"]}, {"on": 7}, {"on": [{}]}]
)
@pytest.mark.parametrize("action", ["get", "getattr", "setattr", "exec", "next", "describe", "nonsense"])
def test_options_of_any_shape_are_an_error_and_nothing_else(ask: Exposure, action: str, options: Any) -> None:
    assert ask.exposed.member(action, options).text == ""
    ask.exposed.role(action, options)
    ask.exposed.only_reads(action, options)
    if action == "describe" and options in ({}, []):
        return
    with pytest.raises((MemberRefused, RemoteProtocolError, Refused, TypeError, ValueError)):
        ask(action, options)


def test_reading_an_item_makes_none(ask: Exposure, rack: Rack) -> None:
    for get in (
        lambda: ask.get("counts", ("x",)),
        lambda: ask.run("counts", method="__getitem__", args=("x",)),
    ):
        with pytest.raises(KeyError):
            get()
    assert not rack.counts


def test_expose_narrows_by_names_and_paths() -> None:
    ask = Exposure(Rack(), ["ch1.voltage", "channels.off", "mode"])
    assert ask.get("ch1", "voltage") == 1.0
    assert ask.run("channels", (1,), "off") == ("return", 2)
    assert ask("get", {"on": ("ch1",)})[0] == "reference"
    assert set(ask("describe", {"on": (), "about": True})[1]["members"]) == {"ch1", "channels", "mode"}
    assert set(ask("describe", {"on": ("ch1",), "about": True})[1]["members"]) == {"voltage"}
    for path in (
        ("off",),
        ("ch1", "off"),
        ("ch1", "level", "unit"),
        ("channels", (0,), "voltage"),
        ("reading",),
    ):
        for action in ("get", "getattr", "setattr", "exec"):
            with pytest.raises(MemberRefused, match="not exposed"):
                ask(action, {"on": path, "value": 1})
    for options in ({"on": ("ch1",), "method": "__enter__"}, {"on": (), "method": "__str__"}):
        with pytest.raises(MemberRefused, match="not exposed"):
            ask("exec", options)


# Those that read no references


def test_whoever_reads_no_references_gets_what_it_always_got(ask: Exposure) -> None:
    old: dict[str, Any] = {"can_refer": False}
    assert ask("get", {"name": "modes"}, **old) == ("remote", None)
    assert ask("getattr", {"name": "modes"}, **old) == ("return", {"now": Mode.FAST})
    assert ask("get", {"name": "off"}, **old) == ("remote", None)
    assert ask("get", {"on": ("ch1",), "name": "voltage"}, **old) == ("return", 1.0)
    assert ask("exec", {"name": "modes", "method": "__len__"}, **old) == ("return", 1)
    with pytest.raises(MemberRefused, match=r"ch1.*stays at the server"):
        ask("get", {"name": "ch1"}, **old)
    with pytest.raises(TypeError, match=r"channel.*stays at the server"):
        ask.run("channel", args=(0,), **old)


def test_what_a_server_wants_to_be_held_remotely_is_a_reference() -> None:
    ask = Exposure(Rack(), return_as_remote=lambda value: value == Reading(1.0))
    assert ask("get", {"on": ("reading",)})[0] == "reference"
    assert ask("get", {"on": ("modes",)})[0] == "return"
    assert ask("get", {"name": "reading"}, can_refer=False) == ("remote", None)


# Roles and marks


def test_marks_are_those_of_the_author_or_of_whoever_serves(ask: Exposure) -> None:
    member = ask.exposed.member
    assert member("exec", {"name": "off"}).urgent
    assert member("exec", {"name": "ramp"}).on_cancel == "off"
    assert member("exec", {"on": ("channels", (0,)), "name": "off"}).text == "channels[0].off"
    assert not member("exec", {"on": ("channels", (0,)), "name": "off"}).urgent
    assert member("exec", {"on": ("channels", (0,), "level"), "name": "history"}).reading
    assert member("exec", {"on": ("ch1",), "name": "off"}) is member("exec", {"on": ("ch1",), "name": "off"})


def test_an_observer_calls_what_is_marked_as_reading_and_nothing_else(ask: Exposure) -> None:
    observer = Asker(key=key_of(Role.OBSERVER))
    role = ask.exposed.role
    for path in (
        ("ch1", "level", "history"),
        ("bank", (0,), "level", "history"),
        ("selected", "level", "history"),
    ):
        assert role("exec", {"on": path}) is Role.OBSERVER
        assert ask.run(*path, caller=observer)[1] == [0.0]
    assert role("exec", {"on": ("ch1", "off")}) is Role.OPERATOR
    assert role("setattr", {"on": ("ch1", "voltage")}) is Role.OPERATOR
    for path in (("bank", (0,), "off"), ("selected", "off"), ("selected", "level")):
        with pytest.raises(RoleRefused):
            ask.run(*path, caller=observer)
        ask.run(*path, caller=Asker(key=key_of(Role.OPERATOR)))


def test_a_mark_that_is_gone_gives_nobody_anything(ask: Exposure, rack: Rack) -> None:
    observer = Asker(key=key_of(Role.OBSERVER))
    assert ask.exposed.member("exec", {"on": ("ch1", "level"), "name": "history"}).reading
    rack.ch1.level = rack.ch1  # type: ignore[assignment]
    rack.ch1.history = rack.off  # type: ignore[attr-defined]
    with pytest.raises(RoleRefused):
        ask("exec", {"on": ("ch1", "level"), "name": "history"}, caller=observer)
    assert rack.stopped == []


def test_what_is_called_when_a_call_was_cancelled(ask: Exposure, rack: Rack) -> None:
    options = {"name": "ramp"}
    call: Any = None
    ask.exposed.cancelled(call, "exec", options)
    ask.exposed.cancelled(call, "exec", {"name": "channel"})
    assert rack.stopped == ["off"]


class Fuse:
    """Something with items, whose `get` is no look at them."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def __getitem__(self, index: object) -> int:
        return 1

    def get(self, what: object) -> int:
        """Do something."""
        self.asked.append(what)
        return 1


def test_an_observer_runs_no_method_that_has_the_name_of_an_operation() -> None:
    rack = Rack()
    rack.fuse = Fuse()  # type: ignore[attr-defined]
    ask = Exposure(rack)
    with pytest.raises(RoleRefused):
        ask.run("fuse", method="get", args=(1,), caller=Asker(key=key_of(Role.OBSERVER)))
    assert ask.run("fuse", method="get", args=(1,)) == ("return", 1)
    assert rack.fuse.asked == [1]  # type: ignore[attr-defined]


# Several objects, and what is told of them


def test_several_objects_are_the_roots_of_their_paths(rack: Rack) -> None:
    ask = Exposure({"rack": rack, "spare": Rack()})
    assert ask.get("rack", "ch1", "voltage") == 1.0
    assert ask.get()["kind"] == "reference"
    for name in ("rack", "new"):
        with pytest.raises(MemberRefused):
            ask("setattr", {"name": name, "value": 1})
    assert ask.exposed.tree.lanes == 1
    with pytest.raises(ConfigError):
        Exposure({"no name": rack})


def test_signals_of_nested_objects_are_topics_of_their_paths(ask: Exposure, rack: Rack) -> None:
    found = ask.tree.signals()
    assert found["ch1.changed"] is rack.ch1.changed
    assert found["channels[1].changed"] is rack.channels[1].changed


def test_a_description_tells_all_that_a_client_needs_and_runs_no_property(rack: Rack) -> None:
    ask = Exposure(rack)
    told = ask("describe", {"about": True})[1]
    kinds = {name: entry["kind"] for name, entry in told["members"].items()}
    assert (told["type"], told["kind"], told["doc"]) == (
        "Rack",
        "reference",
        "All that an instrument may have.",
    )
    assert kinds["ch1"] == kinds["bank"] == "reference"
    assert (kinds["channels"], kinds["off"], kinds["trace"], kinds["mode"]) == (
        "items",
        "method",
        "property",
        "value",
    )
    name = "tests.agents.rack.Channel"
    assert told["members"]["ch1"]["type"] == told["members"]["channels"]["item"] == name
    assert told["members"]["selected"]["refers"] is True
    assert "refers" not in told["members"]["trace"]
    assert told["types"][name]["members"]["level"]["callable"] is True
    assert told["types"][name]["members"]["off"]["signature"] == "() -> int"
    assert told["types"]["tests.agents.rack.Parameter"]["members"]["history"]["reading"] is True
    assert told["members"]["ramp"]["on_cancel"] == "off"
    level = ask("describe", {"on": ("ch1", "level"), "about": True})[1]
    assert (level["callable"], level["signature"]) == (True, "(*value: float) -> float")
    assert not rack.looked
    assert ask("describe", {}, can_refer=False)[1]["ch1"]["kind"] == "value"
