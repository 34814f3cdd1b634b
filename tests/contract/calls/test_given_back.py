"""What leads to servers that are gone is given back, and what they served, however often others come."""

from __future__ import annotations

import contextlib
import gc
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Agent, Protocol, Proxy, RemoteProtocolError, Server, attach

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, until
from tests.contract.rigs.endpoints import free_endpoint

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="only Linux tells what is open")


class Counter:
    def count(self) -> int:
        return 1


def counting(endpoint: str, **options: Any) -> Server:
    return Server(Counter(), endpoint, **options)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def _agent(timings: Callable[..., None]) -> Iterator[None]:
    """Another proxy holds the agent of all proxies meanwhile."""
    timings(connection_idle=0.1)
    with Server(Counter(), protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY)) as proxy:
            assert proxy.count.future().result(TIMEOUT) == 1
            yield


def with_servers(
    use: Callable[[str], object], endpoint: str = "", made: Callable[..., Agent] = counting
) -> None:
    """Use a few servers, one after the other; then as much is open as after the first ones."""
    before = 0
    for number in range(20):
        with made(endpoint or free_endpoint(), protocol=Protocol(KEY)) as server:
            use(server.rep_endpoint)
        if number == 4:
            before = descriptors()
    until(lambda: descriptors() <= before + 1)


def test_calls_of_one_proxy_to_a_server_that_is_restarted() -> None:
    endpoint = free_endpoint()
    with contextlib.ExitStack() as stack:
        with Server(Counter(), endpoint, protocol=Protocol(KEY)):
            proxy = stack.enter_context(proxied(endpoint, protocol=Protocol(KEY), timeout=TIMEOUT))
        with_servers(lambda _: proxy.count.future().result(TIMEOUT), endpoint)


def test_calls_of_proxies_that_were_closed() -> None:
    def use(endpoint: str) -> None:
        with proxied(endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
            assert proxy.count.future().result(TIMEOUT) == 1

    with_servers(use)


def test_proxies_that_could_not_be_made() -> None:
    def use(endpoint: str) -> None:
        with pytest.raises(RemoteProtocolError, match="serves no object"):
            Proxy(endpoint, protocol=Protocol(KEY), timeout=TIMEOUT)

    with_servers(use, made=Agent)


def test_outcomes_that_were_fetched() -> None:
    def use(endpoint: str) -> None:
        with proxied(endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
            call = proxy.count.future()
            assert call.result(TIMEOUT) == 1
        assert attach(call.call_id, protocol=Protocol(KEY)).result(TIMEOUT) == 1

    with_servers(use)


def test_objects_that_were_served_in_this_process() -> None:
    kept: list[weakref.ref[Counter]] = []

    def serve() -> None:
        served = Counter()
        kept.append(weakref.ref(served))
        with Server(served, protocol=Protocol(KEY)) as server:
            with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
                assert proxy.count() == 1

    serve()
    until(lambda: gc.collect() >= 0 and kept[0]() is None)
