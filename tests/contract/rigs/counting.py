"""A server that notes its calls in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Protocol, Server

from tests.contract.rigs.calling import KEY


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
