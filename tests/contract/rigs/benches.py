"""What the tests of awaitable proxies serve, and how they run their coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pzc import Protocol, Server, Signal, aio, cancelled

from tests.contract.rigs.calling import KEY, TIMEOUT

T = TypeVar("T")


class WatchedSignal(Signal):
    """A signal that tells when its last slot is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.silent = threading.Event()

    def disconnect(self, slot: Callable[..., Any] | None = None) -> None:
        super().disconnect(slot)
        if not self.slots:
            self.silent.set()


class Bench:
    """One of everything that can be awaited."""

    def __init__(self) -> None:
        self.voltage = 0.0
        self.calibration = {1: 2}
        self.voltage_changed = WatchedSignal()
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.ended = threading.Event()
        self.calls = 0

    def ramp(self, a: int, b: int = 2) -> int:
        """Multiply."""
        return a * b

    def fail(self) -> None:
        raise ValueError("out of range")

    def wait(self) -> str:
        self.entered.set()
        assert self.opened.wait(TIMEOUT)
        return "through"

    def run_until_cancelled(self) -> None:
        self.entered.set()
        while not cancelled():
            self.opened.wait(0.01)
        self.ended.set()

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def scan(self, stop: int) -> Iterator[int]:
        try:
            yield from range(stop)
        finally:
            self.ended.set()

    def break_off(self) -> Iterator[int]:
        yield 1
        raise ValueError("out of paper")

    def measure(self) -> Iterator[str]:
        yield "begun"
        yield self.wait()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """In an event loop of its own, which is closed then."""
    return asyncio.run(asyncio.wait_for(coroutine, TIMEOUT))


def proxy_of(endpoint: str, **options: Any) -> aio.Proxy:
    return aio.Proxy(endpoint, **{"protocol": Protocol(KEY), "timeout": TIMEOUT, **options})


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, TIMEOUT)


@contextmanager
def bench_served() -> Iterator[tuple[Bench, str]]:
    """A bench, and the endpoint of its server."""
    served = Bench()
    with Server(served, protocol=Protocol(KEY)) as server:
        yield served, server.rep_endpoint
        served.opened.set()
