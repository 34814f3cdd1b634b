"""Paths into an instrument as messages say them, what `expose` leaves of them, and handles of what has no path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Agent, MemberRefused, Protocol, Proxy, Refused, Server

from tests.contract.rigs.calling import KEY, TIMEOUT, served, until
from tests.contract.rigs.racks import Channel, Rack, racked


class Asking:
    """An agent that says paths by hand."""

    def __init__(self, server: Server, agent: Agent) -> None:
        self.agent, self._endpoint = agent, server.rep_endpoint

    def __call__(self, action: str, *on: Any, **options: Any) -> tuple[str, Any]:
        """Kind of the answer, and what is in it or the class of the error."""
        content = ("PSMessage", action, {"on": on, **options})
        _, kind, told = self.agent.request(self._endpoint, content, TIMEOUT)
        return (kind, told[0]["type"].rpartition(".")[2]) if kind == "raise" else (kind, told)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Rack(), protocol=Protocol(KEY)) as made:
        yield made


@pytest.fixture
def ask(server: Server) -> Iterator[Asking]:
    with Agent(protocol=Protocol(KEY)) as agent:
        yield Asking(server, agent)


REFUSED = [("raise", "MemberRefused"), ("raise", "OperationRefused")]

OUTSIDE: list[tuple[Any, ...]] = [
    ("make", "real"), ("make", "__func__"), ("ch1", "number", "real"), ("ch1", ("a",)), ("ch1", "number", (0,)),
    ("each", "gi_frame"), ("ch1", "_voltage"), ("channels", (0,), "_voltage"), ("ch1", "level", "__call__"),
]  # fmt: skip


def test_no_path_leads_out_of_an_instrument(ask: Asking) -> None:
    for path in OUTSIDE:
        for action, more in (("get", {}), ("exec", {"method": "__call__"}), ("setattr", {"value": 1})):
            assert ask(action, *path, **more) in REFUSED, (action, path)
    assert ask("get", "ch1", "number") == ("return", 1)


def test_nothing_but_the_operations_of_its_kind_is_done_with_what_a_path_leads_to(ask: Asking) -> None:
    for method in ("__class__", "__reduce__", "__getattribute__", "pop", "clear", None, 7, ["keys"]):
        for path in (("ch1",), ("channels",), ("ch1", "number"), ("ch1", "off")):
            assert ask("exec", *path, method=method) in REFUSED, (path, method)


def test_whoever_serves_narrows_by_names_and_paths() -> None:
    with served(Rack(), expose=["ch1.voltage", "channels.off", "left"]) as (_, proxy):
        assert proxy.ch1.voltage == 0.0
        assert proxy.channels[1].off() == 2
        assert set(dir(proxy)) == {"ch1", "channels", "left"}
        assert set(dir(proxy.ch1)) >= {"voltage"}
        assert "off" not in dir(proxy.ch1)
        for refused in (
            lambda: proxy.make(1),
            lambda: proxy.ch1.off(),
            lambda: proxy.ch1.level.unit,
            lambda: proxy.channels[0].voltage,
            lambda: setattr(proxy.ch1, "number", 3),
        ):
            with pytest.raises(MemberRefused):
                refused()


def test_handles_of_one_key_are_bounded(timings: Callable[..., None]) -> None:
    timings(handles=1)
    with racked(Rack(), key=KEY) as rack:
        first = rack.make(1)
        with pytest.raises(Refused, match="let go"):
            rack.make(2)
        assert first.number == 1


def test_nothing_stays_of_a_list_with_more_than_a_key_may_hold(timings: Callable[..., None]) -> None:
    timings(handles=3)
    served = Rack()
    served.by_name = {str(number): Channel(number) for number in range(5)}
    with racked(served, key=KEY) as rack:
        kept = rack.make(1)
        for _ in range(2):
            with pytest.raises(Refused, match="let go"):
                list(rack.by_name.values())
        assert [rack.make(2).number, kept.number] == [2, 1]


def test_a_handle_is_of_one_client_and_free_when_that_is_gone(server: Server, ask: Asking) -> None:
    kind, about = ask("exec", "make", method="__call__", args=(7,))
    (handle,) = about["path"]
    assert kind == "reference"
    assert ask("get", handle, "number") == ("return", 7)
    with Agent(protocol=Protocol(KEY)) as other:
        assert Asking(server, other)("get", handle, "number") == ("raise", "Refused")
    assert server.statistics()["handles"] == 1
    ask.agent.stop()
    until(lambda: server.statistics()["handles"] == 0)


def test_one_object_has_one_handle_which_is_kept_until_it_was_given_back_as_often(server: Server) -> None:
    with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as rack:
        made = rack.make(1)
        rack.choose(made)
        again = rack.chosen
        assert server.statistics()["handles"] <= 1
        del made
        assert again.number == 1


def test_a_message_reaches_nothing_that_is_not_exposed(server: Server) -> None:
    with (
        Server(Rack(), protocol=Protocol(KEY), expose=["ch1.voltage", "channels.off"]) as narrow,
        Agent(protocol=Protocol(KEY)) as agent,
    ):
        ask = Asking(narrow, agent)
        assert ask("exec", "channels", (1,), "off", method="__call__") == ("return", 2)
        for path in (("make",), ("ch1", "off"), ("ch1", "level", "unit"), ("channels", (0,), "voltage")):
            for action in ("get", "getattr", "setattr", "exec"):
                assert ask(action, *path, value=1) == ("raise", "MemberRefused"), (action, path)
        for path, method in (((), "__enter__"), (("ch1",), "__enter__"), (("channels",), "__len__")):
            assert ask("exec", *path, method=method) in REFUSED, (path, method)


def test_what_a_path_does_not_find_is_an_error_of_its_kind(ask: Asking) -> None:
    assert ask("exec", "channels", (99,), "off", method="__call__") == ("raise", "IndexError")
    assert ask("exec", "by_name", ("three",), "off", method="__call__") == ("raise", "KeyError")
