from __future__ import annotations

from typing import Any

import pytest

from pzc import (
    InstantiateRefused,
    MemberRefused,
    RemoteProtocolError,
    Server,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, Instrument, proxied, served
from tests.contract.rigs.signalling import Collected, Source


def test_without_a_list_nothing_is_instantiated_or_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(None) as (server, proxy):
        monkeypatch.setattr("builtins.__import__", forbidden)
        for name in ("tests.contract.rigs.calling.Instrument", "os.system", "antigravity", "", "Instrument"):
            with pytest.raises(InstantiateRefused, match="allowed: none"):
                proxy._proxy_instantiate(name)
        monkeypatch.undo()
        assert server.served_object is None


def forbidden(name: str, *args: Any, **kwargs: Any) -> Any:
    if name in ("os", "antigravity") or name.startswith("tests."):
        raise AssertionError(f"imported {name}")
    return ORIGINAL_IMPORT(name, *args, **kwargs)


ORIGINAL_IMPORT = __import__


def test_a_class_on_the_list_is_instantiated_once() -> None:
    with served(None, allow_instantiate=[Instrument]) as (_, proxy):
        with pytest.raises(InstantiateRefused, match=r"allowed: tests\.contract\.rigs\.calling\.Instrument"):
            proxy._proxy_instantiate("os.getcwd")
        proxy._proxy_instantiate(Instrument)
        assert proxy.ramp(2) == 4
        assert "voltage" in dir(proxy)
        with pytest.raises(InstantiateRefused, match="already serves an object"):
            proxy._proxy_instantiate(Instrument)


def test_an_instantiated_object_gets_its_arguments_and_its_errors_come_back() -> None:
    class Needs:
        def __init__(self, a: int, b: int = 0) -> None:
            self.total = 10 // a + b

    with served(None, allow_instantiate=[Needs]) as (_, proxy):
        with pytest.raises(ZeroDivisionError):
            proxy._proxy_instantiate(Needs, 0)
        proxy._proxy_instantiate(Needs, 5, b=1)
        assert proxy.total == 3


@pytest.mark.parametrize("wanted", [None, 7, ["x"], {"a": 1}, Instrument])
def test_a_class_that_is_no_name_is_refused(wanted: object) -> None:
    with served(None, key=KEY, allow_instantiate=[Instrument]) as (server, proxy):
        with pytest.raises(InstantiateRefused):
            proxy._proxy_remote.request("instantiate", {"class": wanted})
        assert server.served_object is None


@pytest.mark.parametrize("action", ["", "eval", "import", "__class__", "delattr"])
def test_an_unknown_action_is_an_error_of_the_caller(action: str) -> None:
    with served(Instrument()) as (_, proxy), pytest.raises(RemoteProtocolError, match="unknown action"):
        proxy._proxy_remote.request(action, {})


@pytest.mark.parametrize(
    "options",
    [
        {}, {"name": "ramp"}, {"name": "ramp", "method": None}, {"name": None, "method": "__call__"},
        {"name": "ramp", "method": "__call__", "args": 7}, {"name": "ramp", "method": "__call__", "kwargs": 7},
        {"name": "ramp", "method": "__globals__"}, {"name": "ramp", "method": "__class__"},
        {"name": "calibration", "method": "__init__"}, {"name": "calibration", "method": "__reduce__"},
        {"name": "__class__", "method": "__call__"}, {"name": "__init__", "method": "__call__"},
        {"name": "ramp.__func__", "method": "__call__"},
    ],
)  # fmt: skip
def test_a_malformed_or_forbidden_call_is_an_error_and_nothing_else(options: dict[str, Any]) -> None:
    with served(Instrument()) as (_, proxy):
        with pytest.raises((MemberRefused, TypeError)):
            proxy._proxy_remote.request("exec", options)
        assert proxy.ramp(2) == 4


def test_a_subscriber_that_comes_while_the_server_lets_go_does_not_connect_it_again() -> None:
    source = Source()
    with Server(source) as server, proxied(server.rep_endpoint) as proxy:
        proxy.changed.connect(Collected())
        assert source.changed.connected.wait(TIMEOUT)
        server._let_go()
        server.loop.run(server.on_subscribers)
        assert source.changed.slots == []


def test_a_signal_that_is_not_exposed_is_not_connected() -> None:
    source = Source()
    with served(source, expose=["other"]) as (server, proxy):
        server_side = server._tree.signals()
        assert list(server_side) == ["other"]
        proxy._proxy_remote.connect("changed", print, None)
        proxy._proxy_remote.connect("other", print, None)
        assert source.other.connected.wait(TIMEOUT)
        assert source.changed.slots == []


def test_a_signal_of_an_object_made_later_reaches_those_who_subscribed_before() -> None:
    seen = Collected()
    with served(None, allow_instantiate=[Source]) as (_, proxy):
        proxy._proxy_remote.connect("changed", seen, None)
        proxy._proxy_instantiate(Source)
        proxy.emit(0, 2)
        assert seen.wait_for(2) == [0, 1]


def test_info_is_answered_while_a_call_runs_and_a_second_call_waits() -> None:
    gate = Gate()
    with served(gate) as (server, proxy):
        running = proxy.wait.future()
        assert gate.entered.wait(TIMEOUT)
        waiting = proxy.count.future()
        assert proxy._proxy_remote.agent.request(server.rep_endpoint, "ping", TIMEOUT) == "pong"
        assert not waiting.done()
        gate.opened.set()
        assert (running.result(TIMEOUT), waiting.result(TIMEOUT)) == ("through", 2)
