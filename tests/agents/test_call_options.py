from __future__ import annotations

import gc
from concurrent.futures import CancelledError, wait
from typing import Any

import pytest

from pzc import CallCancelled, CallTimeout, Proxy

from tests.contract.calls.test_call_options import Counter
from tests.contract.rigs.calling import TIMEOUT, Gate, Instrument, proxied, served


@pytest.fixture(params=["timeout", "options"])
def short(request: pytest.FixtureRequest) -> Any:
    """Two ways to give a call 0.1 s."""
    if request.param == "timeout":
        return lambda proxy: (setattr_timeout(proxy), proxy.wait)[1]
    return lambda proxy: proxy.wait.options(timeout=0.1)


def setattr_timeout(proxy: Proxy) -> None:
    proxy._proxy_remote.timeout = 0.1


def test_a_timeout_is_per_proxy_and_per_call(short: Any) -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        with pytest.raises(CallTimeout):
            short(proxy)()
        gate.opened.set()


def test_a_transport_comes_from_the_argument_else_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", "tcp")
    with served(Instrument()) as (server, psu):
        assert psu._proxy_remote.transport == "tcp"
        assert psu.ramp(2) == 4
        with proxied(server.rep_endpoint, transport="auto") as other:
            assert other._proxy_remote.transport == "auto"
            assert other.ramp.options(transport="tcp")(3) == 6


def test_a_future_that_is_cancelled_cancels_its_call_before_it_starts() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        first = proxy.wait.future()
        assert gate.entered.wait(TIMEOUT)
        second = proxy.count.future()
        assert second.cancel()
        assert second.cancel()
        with pytest.raises(CancelledError):
            second.result(0)
        assert wait([second], TIMEOUT).done == {second}
        last = proxy.wait.future()
        ping(proxy)
        gate.opened.set()
        assert (first.result(TIMEOUT), last.result(TIMEOUT)) == ("through", "through")
        assert gate.calls == 2


def ping(proxy: Proxy) -> None:
    """A control request, which the I/O threads answer behind those that were sent before."""
    remote = proxy._proxy_remote
    remote.agent.exchange_later(remote.peer, "ping", TIMEOUT).result(TIMEOUT)


def test_a_call_that_was_cancelled_by_another_raises_that() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        proxy.wait.future()
        assert gate.entered.wait(TIMEOUT)
        waiting = proxy.count.future()
        call_id = waiting.call_id.partition("@")[0]
        ping(proxy)
        reply = proxy._proxy_remote.ask({"pzc": "cancel", "id": call_id})
        gate.opened.set()
        assert reply.content["state"] == "removed"
        with pytest.raises(CallCancelled):
            waiting.result(TIMEOUT)


def test_a_cancelled_future_tells_its_callbacks_once() -> None:
    gate = Gate()
    told: list[object] = []
    with served(gate) as (_, proxy):
        future = proxy.wait.future()
        future.add_done_callback(told.append)
        assert gate.entered.wait(TIMEOUT)
        future.cancel()
        gate.opened.set()
        assert proxy.count() == 2
        ping(proxy)
    assert told == [future]


def test_a_dropped_future_lets_the_call_go_on_and_the_proxy_end() -> None:
    counter = Counter()
    with served(counter) as (server, _):
        proxy = Proxy(server.rep_endpoint)
        shared = proxy._proxy_remote.agent
        proxy.note.future()
        del proxy
        gc.collect()
        assert counter.came.acquire(timeout=TIMEOUT)
        assert shared is not None
