"""A server whose members return futures, in both versions of the protocol."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pzc import Protocol, Proxy, Server

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied


class Futures:
    """Methods that return futures."""

    def __init__(self) -> None:
        self.later: Future[Any] = Future()

    def ready(self, value: int) -> Future[int]:
        future: Future[int] = Future()
        future.set_result(value)
        return future

    def failed(self) -> Future[int]:
        future: Future[int] = Future()
        future.set_exception(ValueError("out of range"))
        return future

    def cancelled(self) -> Future[int]:
        future: Future[int] = Future()
        future.cancel()
        return future

    def unspeakable(self) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(threading.Lock())
        return future

    def wait(self) -> Future[Any]:
        return self.later


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
