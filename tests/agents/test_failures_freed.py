from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import CallTimeout, LockedBy, Protocol, Proxy, Server, batch, lock

from tests.agents.calling import KEY, TIMEOUT, proxied


class Marker:
    """Stands for what the user's frame held: a large array, a file."""


class Failing:
    """Fails in every way in which a served object can."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def fail(self) -> None:
        raise ValueError("out of range")

    def items(self) -> Iterator[int]:
        yield 1
        raise ValueError("out of range")

    def wait(self) -> None:
        self.opened.wait(TIMEOUT)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    target = Failing()
    with (
        Server(target, protocol=Protocol(KEY), concurrency=4) as server,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), transport="unix", timeout=TIMEOUT) as made,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as made.__dict__["other"],
    ):
        yield made
        target.opened.set()


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _in_batch(proxy: Proxy) -> None:
    with batch(proxy) as recorded:
        recorded.fail()


def _while_locked(proxy: Proxy) -> None:
    with lock(proxy):
        lock(proxy.__dict__["other"])


FAILURES: dict[str, tuple[Callable[[Proxy], Any], type[Exception]]] = {
    "a call": (lambda proxy: proxy.fail(), ValueError),
    "a call over tcp": (lambda proxy: proxy.fail.options(transport="tcp")(), ValueError),
    "a future": (lambda proxy: proxy.fail.future().result(TIMEOUT), ValueError),
    "a stream": (lambda proxy: list(proxy.items()), ValueError),
    "a batch": (_in_batch, ValueError),
    "a lock": (_while_locked, LockedBy),
    "a timeout": (lambda proxy: proxy.wait.options(timeout=0.1)(), CallTimeout),
    "a timeout over tcp": (lambda p: p.wait.options(timeout=0.1, transport="tcp")(), CallTimeout),
    "the timeout of a future": (lambda p: p.wait.options(timeout=0.1).future().result(TIMEOUT), CallTimeout),
}


@pytest.mark.parametrize("how", FAILURES)
def test_what_stood_beside_a_call_that_failed_is_freed_at_once(
    proxy: Proxy, without_collector: None, how: str
) -> None:
    operation, kind = FAILURES[how]

    def fail() -> weakref.ref[Marker]:
        marker = Marker()
        with pytest.raises(kind):
            operation(proxy)
        return weakref.ref(marker)

    fail()  # connections, caches
    assert fail()() is None
