"""Servers with names in processes of their own, and what this process knows of the names around it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pzc import Agent, Server, discover

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.processes import Hand, Workers

CLOCK_OFF = """
import sys, threading, time
real, ahead = time.time, float(sys.argv[1])
time.time = lambda: real() + ahead
time.time_ns = lambda: int(time.time() * 10**9)
from pzc import Agent
print("begun", flush=True)
while True:
    with Agent(name="elsewhere"):
        threading.Event().wait(0.05)
"""
REGISTRY = [sys.executable, "-P", "-m", "pzc", "registry", "--bind", "tcp://127.0.0.1:0", "--json"]


@contextmanager
def registry() -> Iterator[str]:
    """The endpoint of a registry in a process of its own."""
    with subprocess.Popen(REGISTRY, stdout=subprocess.PIPE, text=True, env=os.environ.copy()) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["rep_endpoint"]
        finally:
            process.send_signal(signal.SIGINT)


@contextmanager
def saying_by_a_clock_that_is_off(seconds: float, secret: str) -> Iterator[None]:
    """A process whose clock is so far ahead, and in which agents of one name come and go."""
    command = [sys.executable, "-P", "-c", CLOCK_OFF, str(seconds)]
    environment = {**os.environ, "PZC_KEY": secret}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            yield
        finally:
            process.kill()


class Instrument:
    """What is served: it publishes as its server, and tells what its process knows."""

    server: Server

    def __init__(self) -> None:
        self.voltage = 1.0

    def add(self, a: int, b: int) -> int:
        """A call."""
        return a + b

    def publish(self, topic: str, content: Any) -> int:
        """The number of the notification."""
        return self.server.publish(topic, content)

    def wait(self, topic: str) -> bool:
        """Whether somebody subscribes within 15 s."""
        return self.server.wait_for_subscribers(topic, 1, 15)

    def advertise(self, topic: str, scope: str, type: str) -> None:
        """As `Agent.advertise`."""
        self.server.advertise(topic, scope=scope, type=type)

    def names(self, timeout: float = 0.5) -> list[str]:
        """All that this process knows."""
        return [entry.name for entry in discover("**", timeout)]

    def endpoint(self) -> str:
        """Where the server is."""
        return self.server.rep_endpoint

    def discovery(self) -> dict[str, Any]:
        """What discovery counts here."""
        return self.server.statistics()["discovery"]


@contextmanager
def serving(name: str, namespace: str, topics: tuple[str, ...], rep: str) -> Iterator[Instrument]:
    """A server with a name in this process, that announces topics."""
    instrument = Instrument()
    with Server(instrument, rep, name=name, namespace=namespace) as server:
        instrument.server = server
        for topic in topics:
            server.advertise(topic)
        yield instrument


def serve(
    workers: Workers,
    name: str,
    *topics: str,
    namespace: str = "",
    rep: str = "tcp://127.0.0.1:0",
    timings: dict[str, Any] | None = None,
    **environ: str,
) -> Hand:
    """A server with a name in a process of its own.

    Args:
        workers: start it.
        name: of the server.
        topics: that it announces.
        namespace: that its name stands in.
        rep: where it is bound.
        timings: other times in its process.
        environ: ``PZC_`` variables of its process.
    """
    hand = workers.begin(serving, name, namespace, topics, rep, environ=environ, timings=timings)
    hand.ask("endpoint")
    return hand


class Watcher:
    """What this process knows by and by, for as long as it takes part in discovery."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def knows(self, name: str) -> bool:
        """Whether somebody with that full name is there."""
        return any(entry.name == name for entry in discover("**", 0.01))

    def wait_for(self, name: str) -> float:
        """When it is there."""
        wait_until(lambda: self.knows(name))
        return time.monotonic()

    def wait_for_end(self, name: str) -> float:
        """When it is gone."""
        wait_until(lambda: not self.knows(name))
        return time.monotonic()


@contextmanager
def watching() -> Iterator[Watcher]:
    """An agent takes part, so that what was heard is kept from one question to the next."""
    with Agent(name="watcher") as agent:
        discover("*", 0.0)
        yield Watcher(agent)
