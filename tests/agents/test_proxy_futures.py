from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Protocol, Proxy, Server
from pzc.agents.serving.results import Results

from tests.contract.calls.test_proxy_futures import Futures
from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, served


@pytest.fixture(params=["PZC01", "PZC00"])
def futures(request: pytest.FixtureRequest, beside_originals: None) -> Iterator[tuple[Futures, Proxy]]:
    """Both ways in which a result finds its future."""
    target = Futures()
    protocol = Protocol(KEY, dialect=request.param)
    with (
        Server(target, protocol=Protocol(KEY)) as server,
        proxied(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as proxy,
    ):
        yield target, proxy


def test_a_future_outlives_the_servers_patience_with_one_question(
    monkeypatch: pytest.MonkeyPatch,
    timings: Callable[..., None],
) -> None:
    timings(result_wait=0.01)
    target, asked = Futures(), threading.Semaphore(0)
    ask = Results.ask

    def noted(self: Results, *args: Any) -> None:
        ask(self, *args)
        asked.release()

    monkeypatch.setattr(Results, "ask", noted)
    with served(target) as (_, proxy):
        future = proxy.wait()
        for _ in range(3):
            assert asked.acquire(timeout=TIMEOUT)
        target.later.set_result(7)
        assert future.result(TIMEOUT) == 7
