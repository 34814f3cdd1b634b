from __future__ import annotations

import threading
from typing import Any

import pytest

from pzc import Protocol, Proxy, Server, close
from pzc.protocol.limits import Limits

from tests.contract.rigs import rooms
from tests.contract.rigs.calling import KEY, TIMEOUT, in_thread, proxied, served
from tests.contract.rigs.peers import run_threads
from tests.contract.rigs.rooms import Moody, Room

moody = rooms.moody


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_everything_of_an_affine_server_happens_in_the_thread_that_made_its_object(transport: str) -> None:
    proxy: Any = Server.serve_in_thread(Room, protocol=Protocol(KEY), thread_affine=True)
    with proxied(proxy._proxy_remote.endpoint, protocol=Protocol(KEY), transport=transport) as other:
        found = {tuple(proxy.where()) for _ in range(10)} | {tuple(other.where()) for _ in range(10)}
        run_threads(*[lambda: other.meet()] * 4)
        made_in = proxy.made_in
        assert set(proxy.threads) == {made_in}
    assert found == {(made_in, made_in)}
    proxy._proxy_stop_server()
    close(proxy)


def quickened(proxy: Proxy) -> None:
    for _ in range(Limits().quick_proofs + 2):
        assert proxy.step() == "done"


def test_a_quick_method_runs_in_the_io_thread(moody: Moody) -> None:
    with served(moody) as (server, _), proxied(server.rep_endpoint, transport="tcp") as proxy:
        quickened(proxy)
    assert "pzc-io" in moody.ran_in[-1]


def test_a_quick_method_that_is_slow_for_once_holds_up_nobody(moody: Moody) -> None:
    with served(moody) as (server, _), proxied(server.rep_endpoint, transport="tcp") as proxy:
        quickened(proxy)
        moody.slow = True
        thread, outcome = in_thread(proxy.step)
        assert moody.entered.wait(TIMEOUT)
        agent = proxy._proxy_remote.agent
        assert agent.exchange(server.rep_endpoint, "ping", TIMEOUT, transport="tcp").content == "pong"
        waiting = proxy.step.future()
        moody.opened.set()
        thread.join(TIMEOUT)
        assert outcome == ["done"]
        assert waiting.result(TIMEOUT) == "done"
        quickened(proxy)


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
            for _ in range(Limits().quick_proofs + 5):
                assert outer.relay() == "done"


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_method_may_call_its_own_server_when_there_is_another_slot(moody: Moody, transport: str) -> None:
    with (
        served(moody, concurrency=2) as (server, _),
        proxied(server.rep_endpoint, transport=transport, timeout=TIMEOUT) as proxy,
    ):
        moody.other = proxy.step
        for _ in range(Limits().quick_proofs + 5):
            assert proxy.relay() == "done"


def test_a_method_may_ask_its_own_server_what_is_answered_at_once(moody: Moody) -> None:
    with served(moody) as (server, proxy):
        agent = proxy._proxy_remote.agent
        moody.other = lambda: agent.request(server.rep_endpoint, "ping", TIMEOUT)
        for _ in range(Limits().quick_proofs + 5):
            assert proxy.relay() == "pong"


def test_taking_over_leaves_no_thread_behind(moody: Moody) -> None:
    with served(moody) as (server, _), proxied(server.rep_endpoint, transport="tcp") as proxy:
        for _ in range(5):
            quickened(proxy)
            moody.opened.clear()
            moody.entered.clear()
            moody.slow = True
            thread, _ = in_thread(proxy.step)
            assert moody.entered.wait(TIMEOUT)
            leader = server.loop.run(threading.current_thread)
            moody.opened.set()
            thread.join(TIMEOUT)
            assert server.loop.run(threading.current_thread) is leader
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("pzc-io")]
