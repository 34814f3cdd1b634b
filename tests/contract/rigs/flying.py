"""Calls in flight to a server, until a test lets them go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pzc import (
    Protocol,
    Proxy,
    Server,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied


class Notes:
    """Notes what it was called with; the gate lets a test decide when a call ends."""

    def __init__(self) -> None:
        self.noted: list[Any] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def note(self, value: Any) -> Any:
        self.noted.append(value)
        return value

    def wait(self) -> str:
        self.entered.set()
        assert self.opened.wait(TIMEOUT)
        return "through"

    def grow(self, size: int) -> bytes:
        return bytes(size)

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def later(self, value: int) -> Future[int]:
        future: Future[int] = Future()
        threading.Thread(target=future.set_result, args=(value,)).start()
        return future


@pytest.fixture
def notes() -> Iterator[Notes]:
    made = Notes()
    yield made
    made.opened.set()


@pytest.fixture
def server(notes: Notes) -> Iterator[Server]:
    with Server(notes, protocol=Protocol(KEY)) as made:
        yield made
        notes.opened.set()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as made:
        yield made


@pytest.fixture
def gathering(proxy: Proxy, notes: Notes) -> Future[Any]:
    """A call that runs at the server; what is called behind it waits there until it has ended."""
    future = proxy.wait.future()
    assert notes.entered.wait(TIMEOUT)
    return future
