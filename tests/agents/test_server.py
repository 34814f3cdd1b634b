from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pzc import (
    BindError,
    InstantiateRefused,
    MemberRefused,
    Protocol,
    RemoteProtocolError,
    Server,
    Signal,
    close,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, Instrument, in_thread, proxied, served
from tests.contract.rigs.peers import run_threads


class Watched(Signal):
    """Tells when somebody connects and when everybody has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.connected, self.empty = threading.Event(), threading.Event()

    def connect(self, slot: Callable[..., Any]) -> None:
        super().connect(slot)
        self.empty.clear()
        self.connected.set()

    def disconnect(self, slot: Callable[..., Any] | None = None) -> None:
        super().disconnect(slot)
        if not self.slots:
            self.connected.clear()
            self.empty.set()


class Source:
    """Emits what it is told."""

    def __init__(self) -> None:
        self.changed = Watched()
        self.other = Watched()

    def emit(self, first: int, last: int) -> None:
        for number in range(first, last):
            self.changed.emit(number, number - 1)


class Refusing(Signal):
    """A signal that nobody can connect to."""

    def connect(self, slot: Callable[..., Any]) -> None:
        raise RuntimeError("broken")


class Collected:
    """A slot that waits for a number of values."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._arrived = threading.Condition()

    def __call__(self, value: int) -> None:
        with self._arrived:
            self.values.append(value)
            self._arrived.notify_all()

    def wait_for(self, count: int) -> list[int]:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.values) >= count, TIMEOUT), self.values[-3:]
            return list(self.values)


@pytest.mark.parametrize("affine", [False, True])
def test_calls_run_one_at_a_time_and_in_one_thread_when_that_is_promised(affine: bool) -> None:
    class Lane:
        def __init__(self) -> None:
            self.threads: set[int] = set()
            self.inside = 0
            self.most = 0

        def step(self) -> int:
            self.threads.add(threading.get_ident())
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.inside -= 1
            return self.inside

    lane = Lane()
    with served(lane, thread_affine=affine) as (_, proxy):
        run_threads(*[lambda: [proxy.step() for _ in range(30)]] * 4)
        for future in [proxy.step.future() for _ in range(300)]:
            future.result(TIMEOUT)
    assert lane.most == 1
    assert (len(lane.threads) == 1) == affine


def test_serve_in_thread_makes_the_object_in_the_thread_that_runs_its_calls() -> None:
    class Affine:
        def __init__(self, value: int, *, more: int = 0) -> None:
            self.made_in = threading.get_ident()
            self.value = value + more

        def same_thread(self) -> bool:
            return threading.get_ident() == self.made_in

    proxy = Server.serve_in_thread(
        Affine, (1,), {"more": 2}, protocol=Protocol(KEY), name="affine", thread_affine=True
    )
    assert proxy.same_thread()
    assert proxy.value == 3
    assert proxy.made_in != threading.get_ident()
    proxy._proxy_stop_server()
    close(proxy)


def test_serve_in_thread_passes_on_what_the_factory_raised_and_leaves_nothing() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no such device")

    with pytest.raises(OSError, match="no such device"):
        Server.serve_in_thread(Broken)


def test_serve_in_thread_passes_on_a_bind_error() -> None:
    with Server(Instrument()) as server, pytest.raises(BindError, match=server.rep_endpoint):
        Server.serve_in_thread(Instrument, rep_endpoint=server.rep_endpoint)


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
        with pytest.raises(InstantiateRefused, match=r"allowed: tests\.agents\.calling\.Instrument"):
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


@pytest.mark.parametrize("action", ["getattr", "get"])
def test_a_method_is_never_sent_with_the_object_behind_it(action: str) -> None:
    options = {"name": "ramp", "force_as_object": True}
    with served(Instrument(), key=KEY) as (_, proxy), pytest.raises(MemberRefused, match="not sent by value"):
        proxy._proxy_remote.request(action, options)


def test_a_method_that_exits_costs_its_caller_an_error_and_the_server_nothing() -> None:
    class Exits:
        def leave(self) -> None:
            raise SystemExit(3)

        def stay(self) -> int:
            return 7

    with served(Exits()) as (_, proxy):
        with pytest.raises(RuntimeError, match="SystemExit: 3"):
            proxy.leave()
        assert proxy.stay() == 7


def test_two_proxies_one_leaves_half_way_and_the_signal_is_let_go_by_the_last() -> None:
    source = Source()
    with Server(source) as server:
        with proxied(server.rep_endpoint) as stays, proxied(server.rep_endpoint) as leaves:
            all_of_them, half = Collected(), Collected()
            stays.changed.connect(all_of_them)
            leaves.changed.connect(half)
            assert source.changed.connected.wait(TIMEOUT)
            assert len(source.changed.slots) == 1
            stays.emit(0, 500)
            half.wait_for(500)
            leaves.changed.disconnect(half)
            stays.emit(500, 1000)
            assert all_of_them.wait_for(1000) == list(range(1000))
            assert half.values == list(range(500))
            assert len(source.changed.slots) == 1
            stays.changed.disconnect()
            assert source.changed.empty.wait(TIMEOUT)
    assert source.other.slots == []


def test_closing_a_proxy_lets_its_signals_go() -> None:
    source = Source()
    with Server(source) as server:
        with proxied(server.rep_endpoint) as proxy:
            proxy.changed.connect(Collected())
            assert source.changed.connected.wait(TIMEOUT)
        assert source.changed.empty.wait(TIMEOUT)


def test_stopping_the_server_lets_its_signals_go_while_subscribers_remain() -> None:
    source = Source()
    with Server(source) as server, proxied(server.rep_endpoint) as proxy:
        proxy.changed.connect(Collected())
        proxy.other.connect(Collected())
        assert source.changed.connected.wait(TIMEOUT)
        server.stop()
        assert (source.changed.slots, source.other.slots) == ([], [])


def test_a_subscriber_that_comes_while_the_server_lets_go_does_not_connect_it_again() -> None:
    source = Source()
    with Server(source) as server, proxied(server.rep_endpoint) as proxy:
        proxy.changed.connect(Collected())
        assert source.changed.connected.wait(TIMEOUT)
        server._let_go()
        server.loop.run(server.on_subscribers)
        assert source.changed.slots == []


def test_a_signal_that_cannot_be_connected_costs_the_others_nothing() -> None:
    class Mixed(Source):
        def __init__(self) -> None:
            super().__init__()
            self.broken = Refusing()

    source = Mixed()
    with served(source) as (_, proxy):
        seen = Collected()
        proxy.broken.connect(print)
        proxy.changed.connect(seen)
        proxy.emit(0, 3)
        assert seen.wait_for(3) == [0, 1, 2]


def test_a_signal_that_is_not_exposed_is_not_connected() -> None:
    source = Source()
    with served(source, expose=["other"]) as (server, proxy):
        server_side = server._actions.members.signals()
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


@pytest.mark.parametrize("transport", ["unix", "tcp", "auto"])
@pytest.mark.parametrize("before", [0, 5], ids=["at first", "after others"])
def test_a_call_that_stops_its_server_is_answered_and_does_not_wait_for_itself(
    transport: str, before: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Stops:
        server: Server | None = None

        def shut_down(self, really: bool = True) -> str:
            assert self.server is not None
            if not really:
                return "not yet"
            self.server.stop()
            return "bye"

    target = Stops()
    with Server(target) as server, proxied(server.rep_endpoint, transport=transport) as proxy:
        Stops.server = server
        for _ in range(before):
            assert proxy.shut_down(really=False) == "not yet"
        assert proxy.shut_down() == "bye"
        assert server.join(TIMEOUT)
    assert not [record for record in caplog.records if "could not let go" in record.getMessage()]


def test_serve_forever_ends_when_a_proxy_stops_the_server() -> None:
    with Server(Instrument()) as server, proxied(server.rep_endpoint) as proxy:
        thread, _ = in_thread(server.serve_forever)
        proxy._proxy_stop_server()
        thread.join(TIMEOUT)
        assert not thread.is_alive()


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
