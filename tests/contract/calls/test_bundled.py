from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pzc import Protocol, RemoteProtocolError, Server

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied


class Counter:
    """Notes what it was called with, in order."""

    def __init__(self) -> None:
        self.noted: list[int] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def note(self, number: int, ballast: bytes = b"") -> int:
        self.noted.append(number)
        return number

    def hold(self, number: int, seconds: float = 0.0) -> int:
        """Quick, unless it is told to wait."""
        self.noted.append(number)
        if seconds:
            self.entered.set()
            self.opened.wait(seconds)
        return number

    def fail(self, number: int) -> None:
        raise ValueError(number)

    def large(self, size: int) -> bytes:
        return bytes(size)

    def unspeakable(self) -> Any:
        return threading.Lock()

    def leaving(self) -> Any:
        return Leaving()


class Leaving(Exception):
    """Ends the thread that writes it down, if that lets it."""

    def __reduce__(self) -> Any:
        raise SystemExit


@pytest.fixture
def counter() -> Iterator[Counter]:
    made = Counter()
    yield made
    made.opened.set()


@pytest.fixture
def server(counter: Counter) -> Iterator[Server]:
    with Server(counter, protocol=Protocol(KEY)) as made:
        yield made
        counter.opened.set()


@pytest.mark.parametrize("name", ["unspeakable", "leaving"])
def test_a_result_that_cannot_be_sent_costs_the_other_calls_nothing(server: Server, name: str) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        for _ in range(5):
            futures = [proxy.note.future(1), getattr(proxy, name).future(), proxy.note.future(2)]
            assert futures[0].result(TIMEOUT) == 1
            with pytest.raises((TypeError, RemoteProtocolError)):
                futures[1].result(TIMEOUT)
            assert futures[2].result(TIMEOUT) == 2


@pytest.mark.parametrize("serializer", ["json", "msgpack", "buffers", "pickle4"])
def test_bundles_are_read_and_answered_in_every_serializer(counter: Counter, serializer: str) -> None:
    protocol = Protocol(KEY, serializer)
    with (
        Server(counter, protocol=protocol) as server,
        proxied(server.rep_endpoint, protocol=Protocol(KEY, serializer), timeout=TIMEOUT) as proxy,
    ):
        futures: list[Future[int]] = [proxy.note.future(number) for number in range(30)]
        assert [future.result(TIMEOUT) for future in futures] == list(range(30))
        with pytest.raises(TypeError):
            proxy.note.future(1, nonsense=2).result(TIMEOUT)
