from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import Agent, CallTimeout, Protocol, Server, attach, lock

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, until

logger = logging.getLogger("tests.faults")

CALLS = 100
END_OF_STREAM = 1
"""What waits for its turn behind the call that runs, once all else is removed."""

NOTHING = {"running": 0, "waiting": 0, "held": 0, "lock": None}

CLIENT = """
import sys
from pzc import Protocol, Proxy, lock

endpoint, key, transport, ttl = sys.argv[1:]
proxy = Proxy(endpoint, protocol=Protocol(key), transport=transport, timeout=60)
held = lock(proxy, ttl=float(ttl))
stream = proxy.count()
next(stream)
quick = proxy.step.future()
quick.result()
futures = [proxy.wait.future() for _ in range(100)]
print(quick.call_id, futures[0].call_id, flush=True)
sys.stdin.read()
"""


class Bench:
    """What the client holds something of."""

    def __init__(self) -> None:
        self.closed, self.entered, self.opened = threading.Event(), threading.Event(), threading.Event()
        self.calls = 0

    def count(self) -> Iterator[int]:
        try:
            yield from range(1_000_000)
        finally:
            self.closed.set()

    def wait(self) -> str:
        self.calls += 1
        self.entered.set()
        assert self.opened.wait(TIMEOUT)
        return "through"

    def step(self) -> int:
        return 7

    def stand(self) -> None:
        assert self.closed.wait(TIMEOUT)


class Held:
    """A client process that holds a lock, an open stream and unanswered futures."""

    def __init__(self, bench: Bench, server: Server, observer: Agent, process: subprocess.Popen[str]) -> None:
        self.bench, self.endpoint, self.process = bench, server.rep_endpoint, process
        self._observer = observer
        assert process.stdout is not None
        self.answered, self.unanswered = process.stdout.readline().split()
        assert bench.entered.wait(TIMEOUT)
        self.until(lambda now: now["waiting"] == CALLS - 1)

    def now(self) -> dict[str, Any]:
        told = self._observer.exchange(self.endpoint, {"pzc": "statistics"}, TIMEOUT).content["calls"]
        return {name: told[name] for name in NOTHING}

    def until(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        pause, deadline = threading.Event(), time.monotonic() + TIMEOUT
        while not condition(self.now()):
            assert time.monotonic() < deadline, self.now()
            pause.wait(0.01)


@contextmanager
def held(transport: str = "auto", ttl: float = 30.0) -> Iterator[Held]:
    bench = Bench()
    with (
        Server(bench, protocol=Protocol(KEY)) as server,
        Agent(protocol=Protocol(KEY)) as observer,
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, server.rep_endpoint, KEY, transport, str(ttl)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            yield Held(bench, server, observer, process)
        finally:
            process.kill()
            bench.opened.set()


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])
def test_a_second_after_a_client_was_killed_nothing_of_it_is_left_but_its_results(transport: str) -> None:
    with held(transport) as client:
        killed = time.monotonic()
        client.process.kill()
        client.until(lambda now: now["waiting"] == END_OF_STREAM and now["lock"] is None)
        client.bench.opened.set()
        client.until(NOTHING.__eq__)
        assert client.bench.closed.wait(TIMEOUT)
        seconds = time.monotonic() - killed
        assert seconds < 1.5
        assert client.bench.calls == 1
        for call_id, result in ((client.answered, 7), (client.unanswered, "through")):
            assert attach(call_id, timeout=TIMEOUT, protocol=Protocol(KEY)).result(TIMEOUT) == result
        with (
            proxied(client.endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as other,
            lock(other),
        ):
            assert other.step() == 7
    logger.info("seconds until nothing was left: %s", seconds)


@pytest.mark.slow
def test_a_frozen_client_loses_its_streams_and_waiting_calls_after_four_seconds_and_its_lock_after_its_ttl() -> (
    None
):
    with held(ttl=6.0) as client:
        frozen = time.monotonic()
        os.kill(client.process.pid, signal.SIGSTOP)
        client.until(lambda now: now["waiting"] == END_OF_STREAM)
        silent = time.monotonic() - frozen
        client.bench.opened.set()
        assert client.bench.closed.wait(TIMEOUT)
        assert client.now()["lock"] is not None
        client.until(NOTHING.__eq__)
        expired = time.monotonic() - frozen
        assert 3.5 < silent < 5.0
        assert 5.5 < expired < 7.0
        assert client.bench.calls == 1
    logger.info("seconds until streams and calls were gone, and the lock: %s", (silent, expired))


WAITS = """
import sys, threading
from pzc import Protocol, Proxy

endpoint, key = sys.argv[1:]
proxies = [Proxy(endpoint, protocol=Protocol(key), transport=way, timeout=2.0) for way in ("unix", "tcp")]
outcomes = []

def call(wait):
    try:
        outcomes.append(wait())
    except Exception as error:
        outcomes.append(type(error).__name__)

threads = [threading.Thread(target=call, args=[proxy.wait]) for proxy in proxies for _ in range(20)]
for thread in threads:
    thread.start()
for future in [proxy.wait.future() for proxy in proxies for _ in range(20)]:
    call(future.result)
for thread in threads:
    thread.join()
print(*set(outcomes), flush=True)
"""


def test_answers_that_came_while_a_client_stood_still_for_longer_than_its_timeout_are_given() -> None:
    bench = Bench()
    with (
        Server(bench, protocol=Protocol(KEY), concurrency=80) as server,
        proxied(server.rep_endpoint, protocol=Protocol(KEY)) as observer,
        subprocess.Popen(
            [sys.executable, "-c", WAITS, server.rep_endpoint, KEY], stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            until(lambda: server.statistics()["calls"]["running"] == 80)
            process.send_signal(signal.SIGSTOP)
            bench.opened.set()
            with pytest.raises(CallTimeout):  # for so long
                observer.stand.options(timeout=2.5)()
            process.send_signal(signal.SIGCONT)
            assert process.stdout is not None
            assert process.stdout.readline() == "through\n"
        finally:
            process.kill()
            bench.closed.set()
