"""A server that streams, and a proxy of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pzc import Proxy

from tests.contract.rigs.calling import KEY, TIMEOUT, served


class Scanner:
    """Generators, and what became of them."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = threading.Event()
        self.opened = threading.Event()

    def scan(self, n: int) -> Iterator[int]:
        try:
            for number in range(n):
                self.made = number + 1
                yield number
        finally:
            self.closed.set()

    def endless(self) -> Iterator[int]:
        yield from self.scan(1 << 40)

    def break_at(self, n: int) -> Iterator[int]:
        yield from range(n)
        raise ValueError("out of range")

    def stall(self) -> Iterator[int]:
        yield 1
        self.opened.wait(TIMEOUT)
        yield 2

    def plain(self) -> int:
        return 7


@pytest.fixture
def scanning() -> Iterator[tuple[Scanner, Proxy]]:
    scanner = Scanner()
    with served(scanner, key=KEY) as (_, proxy):
        yield scanner, proxy
        scanner.opened.set()
