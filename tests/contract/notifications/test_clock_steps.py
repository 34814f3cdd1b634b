"""A machine whose clock is set while links are open and calls run: only a new handshake asks what time it is."""

from __future__ import annotations

import pytest

from pzc import Agent, Protocol, Proxy, close, lock

from tests.contract.rigs.calling import KEY, TIMEOUT, ServerProcess, proxied

HOUR = 3600.0
every_step = pytest.mark.parametrize("step", [HOUR, -HOUR])


@pytest.mark.parametrize("transport", ["unix", "tcp"])
@every_step
def test_calls_go_on_when_the_clock_of_the_server_is_set(transport: str, step: float) -> None:
    with ServerProcess("Notebook") as server:
        with proxied(server.endpoint, protocol=Protocol(KEY), transport=transport, timeout=TIMEOUT) as proxy:
            pid = proxy.pid()
            proxy.step(step)
            assert [proxy.pid() for _ in range(3)] == [pid] * 3
        with Agent(protocol=Protocol(KEY)) as agent:
            assert agent.request(server.endpoint, "ping", TIMEOUT) == "pong"


@every_step
def test_a_lock_lasts_as_long_as_its_holder_whatever_the_clock_says(step: float) -> None:
    with ServerProcess("Notebook") as server:
        proxy = Proxy(server.endpoint, protocol=Protocol(KEY), timeout=TIMEOUT)
        try:
            with lock(proxy, ttl=30.0):
                proxy.step(step)
                assert proxy.pid()
        finally:
            close(proxy)
