from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import (
    MemberRefused,
    Refused,
    Role,
)
from pzc.protocol.paths import Handle
from pzc.protocol.references import Reference

from tests.agents.rack import Channel, Mode, Rack, Reading
from tests.agents.serving_calls import AGENT_ID, Asker, Exposure, key_of


@pytest.fixture
def rack() -> Rack:
    return Rack()


@pytest.fixture
def ask(rack: Rack) -> Iterator[Exposure]:
    exposure = Exposure(rack)
    yield exposure
    exposure.coroutines.close()


# Values and references


def test_a_value_is_copied_at_any_depth(ask: Exposure) -> None:
    assert ask.get("ch1", "voltage") == 1.0
    assert ask.get("ch1", "level", "unit") == "V"
    assert ask.get("mode") is Mode.FAST
    assert ask.get("reading") == Reading(1.0)
    assert ask.get("channels", (1,), "voltage") == 2.0
    assert ask.get("bank", (-1,), "voltage") == 2.0
    assert ask.get("modes", ("now",)) is Mode.FAST
    assert ask("get", {"on": ("ch1",), "name": "voltage"}) == ("return", 1.0)
    assert ask("get", {"on": ["channels", [0]], "name": "voltage"}) == ("return", 1.0)


@pytest.mark.parametrize(
    ("path", "kind", "callable_"),
    [
        (("ch1",), "reference", False), (("ch1", "level"), "reference", True), (("channels",), "items", False),
        (("channels", (0, 1, None)), "items", False), (("named",), "items", False), (("ch1", "off"), "method", True),
        (("ch1", "changed"), "signal", False), (("bank",), "reference", False), ((), "reference", False),
        (("selected",), "reference", False), (("ch1", "limits"), "items", False),
    ],
)  # fmt: skip
def test_everything_else_is_a_reference_by_its_path(
    ask: Exposure, path: Any, kind: str, callable_: bool
) -> None:
    answer, about = ask("get", {"on": path})
    assert answer == "reference"
    assert (about["path"], about["kind"], about["callable"]) == (path, kind, callable_)
    assert "handles" not in about


def test_a_list_that_is_made_for_whoever_asks_is_a_value_and_one_that_is_kept_is_none(ask: Exposure) -> None:
    assert ask("get", {"on": ("trace",)}) == ("return", [1.0, 2.0])
    assert ask("get", {"on": ("modes",)})[0] == "reference"
    assert ask("getattr", {"on": ("modes",)}) == ("return", {"now": Mode.FAST})


def test_what_a_call_gives_is_kept_under_a_handle(ask: Exposure, rack: Rack) -> None:
    answer, about = ask.run("channel", args=(1,))
    assert (answer, about["type"], about["handles"]) == ("reference", "Channel", [about["path"][0]["handle"]])
    assert ask.get(*about["path"], "voltage") == 2.0
    ask("setattr", {"on": about["path"], "name": "voltage", "value": 7})
    assert rack.channels[1].number == 7
    assert ask.run(*about["path"], "off") == ("return", 7)


def test_the_same_object_has_the_same_handle_and_the_whole_object_its_path(ask: Exposure) -> None:
    first, again = (ask.run("channel", args=(1,))[1]["handles"] for _ in range(2))
    assert first == again
    assert ask.run("itself")[1]["path"] == ()
    assert ask.run("both")[1]["items"] == "sequence"


def test_a_handle_is_free_once_it_was_released_as_often_as_it_came(rack: Rack, ask: Exposure) -> None:
    released = weakref.ref(channel := Channel(3))
    rack.channels.append(channel)
    handles = [ask.run("channel", args=(2,))[1]["handles"][0] for _ in range(2)]
    rack.channels.pop()
    del channel
    ask.exposed.release(handles[:1], Asker())
    assert ask.get({"handle": handles[0]}, "voltage") == 3.0
    ask.exposed.release(handles[:1], Asker())
    gc.collect()
    assert released() is None
    assert not ask.presence.held
    with pytest.raises(Refused, match="kept no more"):
        ask.get({"handle": handles[0]}, "voltage")


def test_a_handle_is_of_one_client_and_free_when_that_dies(ask: Exposure) -> None:
    other = Asker("b" * 32)
    handle = ask.run("channel", args=(1,))[1]["path"][0]
    with pytest.raises(Refused, match="kept no more"):
        ask.get(handle, "voltage", caller=other)
    ask.exposed.release([handle["handle"]], other)
    assert ask.get(handle, "voltage") == 2.0
    ask.presence.dies(Asker().identity)
    assert len(ask.answers.handles) == 0
    with pytest.raises(Refused, match="kept no more"):
        ask.get(handle, "voltage")


def test_handles_of_one_key_are_bounded(ask: Exposure, timings: Any) -> None:
    timings(handles=1)
    ask.run("channel", args=(0,))
    with pytest.raises(Refused, match="let go"):
        ask.run("channel", args=(1,))
    ask.run("channel", args=(1,), caller=Asker("b" * 32, key_of(Role.OPERATOR)))
    ask.exposed.close()
    assert len(ask.answers.handles) == 0


def test_references_come_back_as_the_very_object(ask: Exposure) -> None:
    handle = ask.run("channel", args=(0,))[1]["handles"][0]
    for path in (("ch1",), ("channels", (0,)), (Handle(handle),)):
        options = {"on": ("ch1", "owner_of"), "args": (Reference(AGENT_ID, path),), "refs": True}
        assert ask("exec", options) == ("return", True)
    foreign = {"on": ("ch1", "owner_of"), "args": (Reference("b" * 32, ()),), "refs": True}
    with pytest.raises(Refused):
        ask("exec", foreign)
    with pytest.raises(MemberRefused):
        ask("exec", {**foreign, "args": (Reference(AGENT_ID, ("_x",)),)})


# Operations


def test_operations_work_on_what_a_path_leads_to(ask: Exposure, rack: Rack) -> None:
    assert ask.run("bank", method="__len__") == ("return", 2)
    assert ask.run("channels", method="__contains__", args=(5,)) == ("return", False)
    assert ask.run("ch1", "level", args=(1.5,)) == ("return", 1.5)
    assert ask.run("ch1", "limits", method="__setitem__", args=("low", -1)) == ("return", None)
    assert ask("setattr", {"on": ("ch1", "limits", ("high",)), "value": 3}) == ("return", None)
    assert rack.ch1.limits == {"low": -1, "high": 3}
    assert ask.run("ch1", "limits", method="items") == ("return", [("low", -1), ("high", 3)])
    assert "voltage" in ask.run("ch1", method="__dir__")[1]
    assert "_secret" not in ask.run("ch1", method="__dir__")[1]
    assert ask.run("channels", method="__getitem__", args=(0,))[1]["path"] == ("channels", (0,))
    assert ask.run("bank", method="__getitem__", args=(slice(1, None),))[1]["path"] == (
        "bank",
        (1, None, None),
    )


def test_channels_are_iterated_as_references(ask: Exposure) -> None:
    for name in ("channels", "bank"):
        answer, told = ask.run(name, method="__iter__")
        assert (answer, told["items"], told["done"]) == ("items", [None, None], True)
        assert [about["path"] for _, about in told["refs"]] == [(name, (0,)), (name, (1,))]
    _, told = ask.run("named", method="values")
    assert told["refs"][0][1]["type"] == "Channel"
    assert ask.run("named", method="keys") == ("return", ["a"])


def test_what_has_no_length_is_iterated_as_a_stream(ask: Exposure) -> None:
    _, told = ask.run("each")
    answer, items = ask("next", {"id": told["id"], "credit": 10})
    assert (answer, items["items"], items["done"]) == ("items", [1, None], True)
    assert items["refs"][0][0] == 1
    assert items["refs"][0][1]["type"] == "Channel"
    with pytest.raises(Refused):
        ask("next", {"id": told["id"], "credit": 10})


def test_a_coroutine_gives_what_it_gives(ask: Exposure) -> None:
    assert ask.run("soon")[1]["type"] == "Channel"
    assert ask("next", {"id": ask.run("slowly")[1]["id"], "credit": 5})[1]["items"] == [1]
    assert ask.run("future") == ("future_register", "1")


def test_a_context_is_entered_by_the_path_that_it_has(ask: Exposure, rack: Rack) -> None:
    assert ask.run("ch1", method="__enter__")[1]["path"] == ("ch1",)
    ask.run("ch1", method="__exit__", args=(None, None, None))
    assert rack.ch1.number == -1
    ask.run("ch1", method="__exit__", args=["ValueError", "out of range", None])
    assert rack.ch1.number == -2


@pytest.mark.parametrize(
    "method", ["__class__", "__reduce__", "__getattribute__", "pop", "clear", None, 7, ["keys"]]
)
def test_no_other_operation_is_done(ask: Exposure, method: Any) -> None:
    for path in (("ch1",), ("channels",), ("mode",), ("ch1", "off")):
        with pytest.raises(MemberRefused, match="does not allow"):
            ask.run(*path, method=method)
