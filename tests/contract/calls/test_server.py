from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pzc import (
    Agent,
    BindError,
    InstantiateRefused,
    Protocol,
    Server,
    Signal,
    close,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, Instrument, in_thread, proxied, served
from tests.contract.rigs.peers import Inbox, run_threads
from tests.contract.rigs.signalling import Collected, Source


class Refusing(Signal):
    """A signal that nobody can connect to."""

    def connect(self, slot: Callable[..., Any]) -> None:
        raise RuntimeError("broken")


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


def test_without_a_list_nothing_is_instantiated_or_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trap_of_a_test.py").write_text("class Trap:\n    pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with served(None) as (server, proxy):
        for name in ("trap_of_a_test.Trap", "os.system", "", "Instrument"):
            with pytest.raises(InstantiateRefused, match="allowed: none"):
                proxy._proxy_instantiate(name)
        assert "trap_of_a_test" not in sys.modules
        assert server.served_object is None


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


def test_a_signal_that_is_not_exposed_is_not_connected() -> None:
    source = Source()
    with served(source, expose=["other"]) as (server, _), Agent() as reader:
        reader.subscribe(server.rep_endpoint, "changed")
        reader.subscribe(server.rep_endpoint, "other")
        assert source.other.connected.wait(TIMEOUT)
        assert source.changed.slots == []


def test_a_signal_of_an_object_made_later_reaches_those_who_subscribed_before() -> None:
    inbox = Inbox()
    with served(None, allow_instantiate=[Source]) as (server, proxy), Agent() as reader:
        reader.subscribe(server.rep_endpoint, "changed", inbox)
        proxy._proxy_instantiate(Source)
        proxy.emit(0, 2)
        assert len(inbox.take(2)) == 2
