from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from pzc import AgentClosed, CallTimeout, PeerLost, Proxy, close

from tests.contract.acceptance import acceptance
from tests.contract.rigs import deferring
from tests.contract.rigs.calling import TIMEOUT, Gate, counts, served, until
from tests.contract.rigs.deferring import Futures

futures = deferring.futures


@acceptance("P4")
def test_five_hundred_futures_that_were_complete_when_returned_all_complete(
    futures: tuple[Futures, Proxy],
) -> None:
    _, proxy = futures
    found = [proxy.ready(number) for number in range(500)]
    assert [future.result(TIMEOUT) for future in found] == list(range(500))


def test_futures_of_calls_that_are_not_waited_for_complete_too(futures: tuple[Futures, Proxy]) -> None:
    _, proxy = futures
    found = [proxy.ready.future(number) for number in range(500)]
    assert [future.result(TIMEOUT) for future in found] == list(range(500))


def test_a_future_that_raised_raises_here(futures: tuple[Futures, Proxy]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        futures[1].failed().result(TIMEOUT)


def test_a_cancelled_future_is_cancelled_here(futures: tuple[Futures, Proxy]) -> None:
    with pytest.raises(CancelledError):
        futures[1].cancelled().result(TIMEOUT)


def test_a_future_that_completes_later_completes_here(futures: tuple[Futures, Proxy]) -> None:
    target, proxy = futures
    future = proxy.wait()
    assert not future.done()
    target.later.set_result(7)
    assert future.result(TIMEOUT) == 7


def test_a_future_that_fails_later_fails_here(futures: tuple[Futures, Proxy]) -> None:
    target, proxy = futures
    future = proxy.wait()
    target.later.set_exception(ValueError("late"))
    with pytest.raises(ValueError, match="late"):
        future.result(TIMEOUT)


def test_a_future_of_a_proxy_that_is_closed_ends(futures: tuple[Futures, Proxy]) -> None:
    _, proxy = futures
    future = proxy.wait()
    close(proxy)
    with pytest.raises((AgentClosed, PeerLost)):
        future.result(TIMEOUT)


def test_a_call_that_is_not_waited_for_ends_with_its_timeout() -> None:
    gate = Gate()
    with served(gate, timeout=0.2) as (_, proxy):
        with pytest.raises(CallTimeout):
            proxy.wait.future().result(TIMEOUT)
        gate.opened.set()


def test_a_future_outlives_the_servers_patience_with_one_question(timings: Callable[..., None]) -> None:
    timings(result_wait=0.01)
    target = Futures()
    with served(target) as (server, proxy):
        future = proxy.wait()
        asked = counts(server)["requests"]
        until(lambda: counts(server)["requests"] >= asked + 3)
        target.later.set_result(7)
        assert future.result(TIMEOUT) == 7
