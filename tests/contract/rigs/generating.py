"""Generators of a server that tell how far they ran, and who reads them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import Agent, Protocol, Server

from tests.contract.rigs.calling import KEY, TIMEOUT
from tests.contract.rigs.turns import turns


class Source:
    """Generators that tell how far they ran and that they were closed."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.closed = threading.Event()
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.threads: set[str] = set()

    def count(self, stop: int = 1_000_000) -> Iterator[int]:
        try:
            for number in range(stop):
                self.made.append(number)
                yield number
        finally:
            self.threads.add(threading.current_thread().name)
            self.closed.set()

    def fail(self) -> Iterator[int]:
        yield 1
        raise ValueError("out of paper")

    def block(self) -> Iterator[int]:
        try:
            yield 0
            self.entered.set()
            assert self.opened.wait(TIMEOUT)
            yield 1
        finally:
            self.closed.set()

    async def tick(self, stop: int) -> AsyncIterator[int]:
        try:
            for number in range(stop):
                await turns()
                yield number
        finally:
            self.closed.set()

    def wait(self) -> None:
        self.entered.set()
        assert self.opened.wait(TIMEOUT)

    def ping(self) -> str:
        return "pong"


class Reader:
    """An agent that speaks of streams as a proxy does; it gives no signs of life."""

    def __init__(self, server: Server, agent: Agent) -> None:
        self.agent, self._endpoint = agent, server.rep_endpoint

    def ask(self, action: str, **options: Any) -> tuple[str, Any]:
        content = self.agent.request(self._endpoint, ("PSMessage", action, options), TIMEOUT)
        return content[1], content[2]

    def open(self, name: str, *args: Any) -> str:
        action, options = self.ask("exec", name=name, method="__call__", args=args)
        assert action == "stream", options
        return options["id"]

    def next(self, stream_id: object) -> tuple[str, Any]:
        return self.ask("next", id=stream_id)

    def drop(self, stream_id: object) -> Any:
        return self.agent.request(self._endpoint, {"pzc": "drop", "id": stream_id}, TIMEOUT)


@contextmanager
def reader_of(server: Server) -> Iterator[Reader]:
    with Agent(protocol=Protocol(KEY)) as agent:
        yield Reader(server, agent)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def server(source: Source) -> Iterator[Server]:
    with Server(source, protocol=Protocol(KEY)) as made:
        yield made
        source.opened.set()


@pytest.fixture
def reader(server: Server) -> Iterator[Reader]:
    with reader_of(server) as made:
        yield made


def error_of(answer: tuple[str, Any]) -> str:
    assert answer[0] == "raise", answer
    return answer[1][0]["type"].rpartition(".")[2]
