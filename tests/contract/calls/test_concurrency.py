from __future__ import annotations

from typing import Any

import pytest

from pzc import Agent, CallTimeout, ConfigError, Protocol, Proxy, Server, close

from tests.contract.rigs import rooms
from tests.contract.rigs.calling import KEY, TIMEOUT, in_thread, proxied, served
from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.peers import run_threads
from tests.contract.rigs.rooms import Moody, Room

moody = rooms.moody


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_three_calls_run_at_once_and_never_four(transport: str) -> None:
    room = Room(meeting=3)
    with Server(room, protocol=Protocol(KEY), concurrency=3) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as proxy:
            run_threads(*[lambda: proxy.meet()] * 27)
    assert (room.most, room.inside) == (3, 0)


def test_calls_of_both_transports_share_the_slots() -> None:
    room = Room(meeting=2)
    with served(room, concurrency=2) as (_, proxy):
        futures = [proxy.meet.future() for _ in range(6)]
        run_threads(*[lambda: proxy.meet()] * 6)
        for future in futures:
            future.result(TIMEOUT)
    assert room.most == 2


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": 2, "thread_affine": True}])
def test_an_impossible_number_of_calls_is_a_config_error_and_leaves_nothing(options: Any) -> None:
    with pytest.raises(ConfigError, match="is not possible"):
        Server(Room(), **options)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_method_that_calls_its_own_server_without_another_slot_gets_a_timeout(
    moody: Moody, transport: str
) -> None:
    with (
        served(moody) as (server, _),
        proxied(server.rep_endpoint, transport=transport, timeout=TIMEOUT) as outer,
        proxied(server.rep_endpoint, transport=transport, timeout=0.3) as inner,
    ):
        moody.other = inner.step
        with pytest.raises(CallTimeout):
            outer.relay()
        assert outer.step() == "done"


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_everything_of_an_affine_server_happens_in_the_thread_that_made_its_object(transport: str) -> None:
    rep = free_endpoint()
    proxy: Any = Server.serve_in_thread(Room, rep_endpoint=rep, protocol=Protocol(KEY), thread_affine=True)
    with proxied(rep, protocol=Protocol(KEY), transport=transport) as other:
        found = {tuple(proxy.where()) for _ in range(10)} | {tuple(other.where()) for _ in range(10)}
        run_threads(*[lambda: other.meet()] * 4)
        made_in = proxy.made_in
        assert set(proxy.threads) == {made_in}
    assert found == {(made_in, made_in)}
    proxy._proxy_stop_server()
    close(proxy)


def quickened(proxy: Proxy) -> None:
    """Call until a call has proved to be quick."""
    for _ in range(5):
        assert proxy.step() == "done"


def test_a_quick_method_that_is_slow_for_once_holds_up_nobody(moody: Moody) -> None:
    with (
        served(moody) as (server, _),
        proxied(server.rep_endpoint, transport="tcp") as proxy,
        Agent() as other,
    ):
        for _ in range(2):
            quickened(proxy)
            moody.opened.clear()
            moody.entered.clear()
            moody.slow = True
            thread, outcome = in_thread(proxy.step)
            assert moody.entered.wait(TIMEOUT)
            assert other.exchange(server.rep_endpoint, "ping", TIMEOUT, transport="tcp").content == "pong"
            waiting = proxy.step.future()
            moody.opened.set()
            thread.join(TIMEOUT)
            assert outcome == ["done"]
            assert waiting.result(TIMEOUT) == "done"


def test_a_server_is_stopped_while_a_quick_method_is_slow(moody: Moody) -> None:
    with served(moody) as (server, _), proxied(server.rep_endpoint, transport="tcp") as proxy:
        quickened(proxy)
        moody.slow = True
        thread, outcome = in_thread(proxy.step)
        assert moody.entered.wait(TIMEOUT)
        stopping, _ = in_thread(server.stop)
        moody.opened.set()
        stopping.join(TIMEOUT)
        thread.join(TIMEOUT)
    assert outcome == ["done"]


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_method_may_call_another_server_of_its_process(moody: Moody, transport: str) -> None:
    with served(Moody()) as (second, _), served(moody) as (first, _):
        with (
            proxied(second.rep_endpoint, transport=transport, timeout=TIMEOUT) as inner,
            proxied(first.rep_endpoint, transport=transport, timeout=TIMEOUT) as outer,
        ):
            moody.other = inner.step
            for _ in range(8):
                assert outer.relay() == "done"


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_method_may_call_its_own_server_when_there_is_another_slot(moody: Moody, transport: str) -> None:
    with (
        served(moody, concurrency=2) as (server, _),
        proxied(server.rep_endpoint, transport=transport, timeout=TIMEOUT) as proxy,
    ):
        moody.other = proxy.step
        for _ in range(8):
            assert proxy.relay() == "done"


def test_a_method_may_ask_its_own_server_what_is_answered_at_once(moody: Moody) -> None:
    with served(moody) as (server, proxy), Agent() as asking:
        moody.other = lambda: asking.request(server.rep_endpoint, "ping", TIMEOUT)
        for _ in range(8):
            assert proxy.relay() == "pong"
