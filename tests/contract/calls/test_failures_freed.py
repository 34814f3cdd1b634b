from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pzc import (
    Agent,
    CallTimeout,
    LockedBy,
    PeerLost,
    PolicyRefused,
    Protocol,
    Proxy,
    Server,
    aio,
    batch,
    block,
    lock,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, ServerProcess, in_thread, proxied
from tests.contract.rigs.pairs import eventually


class Marker:
    """Stands for what the user's frame held: a large array, a file."""


class Failing:
    """Fails in every way in which a served object can."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.markers: list[weakref.ref[Any]] = []

    def fail(self) -> None:
        raise ValueError("out of range")

    async def fail_later(self) -> None:
        marker = Marker()
        self.markers.append(weakref.ref(marker))
        raise ValueError("out of range")

    def fail_at_once(self) -> None:
        marker = Marker()
        self.markers.append(weakref.ref(marker))
        raise ValueError("out of range")

    async def answer_later(self) -> None:
        self.markers.append(weakref.ref(asyncio.current_task()))

    def items(self) -> Iterator[int]:
        yield 1
        raise ValueError("out of range")

    def wait(self) -> None:
        self.opened.wait(TIMEOUT)


@pytest.fixture
def target() -> Failing:
    return Failing()


@pytest.fixture
def proxy(target: Failing) -> Iterator[Proxy]:
    with (
        Server(target, protocol=Protocol(KEY), concurrency=4) as server,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), transport="unix", timeout=TIMEOUT) as made,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as made.__dict__["other"],
    ):
        yield made
        target.opened.set()


def _in_batch(proxy: Proxy) -> None:
    with batch(proxy) as recorded:
        recorded.fail()


def _while_locked(proxy: Proxy) -> None:
    with lock(proxy):
        lock(proxy.__dict__["other"])


FAILURES: dict[str, tuple[Callable[[Proxy], Any], type[Exception]]] = {
    "a call": (lambda proxy: proxy.fail(), ValueError),
    "a call over tcp": (lambda proxy: proxy.fail.options(transport="tcp")(), ValueError),
    "a repeated call": (lambda proxy: proxy.fail.options(idempotent=True)(), ValueError),
    "a future": (lambda proxy: proxy.fail.future().result(TIMEOUT), ValueError),
    "a stream": (lambda proxy: list(proxy.items()), ValueError),
    "a batch": (_in_batch, ValueError),
    "a lock": (_while_locked, LockedBy),
    "a timeout": (lambda proxy: proxy.wait.options(timeout=0.1)(), CallTimeout),
    "a timeout of a repeated call": (lambda p: p.wait.options(timeout=0.1, idempotent=True)(), CallTimeout),
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


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_what_stood_beside_a_call_whose_server_died_is_freed_at_once(
    timings: Callable[..., None], without_collector: None, tmp_path: Path, transport: str
) -> None:
    timings(call_recovery=0.05)
    started = tmp_path / "started"
    os.mkfifo(started)
    with ServerProcess() as server:
        with proxied(server.endpoint, protocol=Protocol(KEY), transport=transport, timeout=TIMEOUT) as proxy:

            def lost() -> weakref.ref[Marker]:
                marker = Marker()
                with pytest.raises(PeerLost):
                    proxy.stall(str(started), TIMEOUT)
                return weakref.ref(marker)

            killing, _ = in_thread(lambda: started.read_text(encoding="utf-8") and server.kill())
            left = lost()
            killing.join(TIMEOUT)
            assert left() is None


@pytest.mark.parametrize("idempotent", [False, True], ids=["once", "repeated"])
def test_what_stood_beside_an_awaited_call_that_failed_is_freed_at_once(
    target: Failing, without_collector: None, idempotent: bool
) -> None:
    async def fail(failing: Any) -> weakref.ref[Marker]:
        marker = Marker()
        with pytest.raises(ValueError, match="out of range"):
            await failing()
        return weakref.ref(marker)

    async def main(endpoint: str) -> weakref.ref[Marker]:
        async with aio.Proxy(endpoint, protocol=Protocol(KEY)) as proxy:
            return await fail(proxy.fail.options(idempotent=idempotent))

    with Server(target, protocol=Protocol(KEY)) as server:
        left = asyncio.run(main(server.rep_endpoint))
        assert eventually(lambda: left() is None)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
@pytest.mark.parametrize("method", ["fail_at_once", "fail_later", "answer_later"])
def test_what_a_call_held_at_its_server_is_freed_at_once(
    target: Failing,
    proxy: Proxy,
    without_collector: None,
    method: str,
    transport: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "pzc")  # whoever keeps a log record keeps the frames
    for _ in range(5):
        with suppress(ValueError):
            getattr(proxy, method).options(transport=transport)()
    assert eventually(lambda: not any(each() for each in target.markers))


@pytest.mark.parametrize("joins", [False, True], ids=["the first of its link", "another one of its link"])
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_what_stood_beside_a_refused_subscription_is_freed_at_once(
    without_collector: None, transport: str, joins: bool
) -> None:
    with Agent(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        publisher.advertise("newest", policies=("latest",))
        if joins:
            reader.subscribe(publisher.rep_endpoint, "t", policy=block(), transport=transport)

        def refused() -> weakref.ref[Marker]:
            marker = Marker()
            with pytest.raises(PolicyRefused):
                reader.subscribe(publisher.rep_endpoint, "newest", policy=block(), transport=transport)
            return weakref.ref(marker)

        refused()
        left = refused()
        assert eventually(lambda: left() is None)


def test_what_stood_beside_a_failure_of_the_io_thread_is_freed_at_once(without_collector: None) -> None:
    with Agent() as agent:

        def fail() -> weakref.ref[Marker]:
            marker = Marker()
            with pytest.raises(ZeroDivisionError):
                agent.loop.run(lambda: 1 // 0)
            return weakref.ref(marker)

        left = fail()
        assert eventually(lambda: left() is None)


def test_what_a_factory_opened_before_it_failed_is_freed_at_once(without_collector: None) -> None:
    """Else its port or file would still be in use at the next attempt."""
    opened: list[weakref.ref[Marker]] = []

    def factory() -> object:
        marker = Marker()
        opened.append(weakref.ref(marker))
        raise ValueError("no such instrument")

    with pytest.raises(ValueError, match="no such instrument"):
        Server.serve_in_thread(factory)
    assert eventually(lambda: opened[0]() is None)
