"""Long calls that look whether they were cancelled, and who cancels them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, Protocol, Server, cancelled

from tests.contract.rigs.calling import KEY, TIMEOUT


class Worker:
    """Long calls that look whether they were cancelled."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.calls = 0

    def work(self) -> bool:
        """True when it was cancelled."""
        self.entered.set()
        for _ in range(int(TIMEOUT / 0.01)):
            if cancelled() or self.opened.wait(0.01):
                break
        return cancelled()

    def step(self) -> int:
        self.calls += 1
        return self.calls


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture(params=[1, 2], ids=["one at a time", "two at a time"])
def server(worker: Worker, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(worker, protocol=Protocol(KEY), concurrency=request.param) as made:
        yield made
        worker.opened.set()


@pytest.fixture
def lone(worker: Worker) -> Iterator[Server]:
    with Server(worker, protocol=Protocol(KEY)) as made:
        yield made
        worker.opened.set()


@pytest.fixture
def client() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


def later(client: Agent, server: Server, name: str) -> Any:
    content = ("PSMessage", "exec", {"name": name, "method": "__call__"})
    return client.exchange_later(client.peer(server.rep_endpoint), content, TIMEOUT)


def cancel(client: Agent, server: Server, call_id: str) -> str:
    return client.request(server.rep_endpoint, {"pzc": "cancel", "id": call_id}, TIMEOUT)["state"]
