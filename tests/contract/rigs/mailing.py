"""Readers of mailboxes that are made to be killed, and a forwarder that loses and repeats requests."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from typing import Protocol as Form

import zmq

from pzc import (
    Agent,
    Notification,
    Protocol,
    Subscription,
    mailbox,
)

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT

READER = """
import os, sys
from pzc import Agent, Protocol, mailbox

endpoint, key, name, topics = sys.argv[1:]
agent = Agent(protocol=Protocol(key))

def show(notification):
    os.write(1, f"{notification.topic} {notification.content}\\n".encode())

for topic in topics.split(","):
    agent.subscribe(endpoint, topic, show, policy=mailbox(name=name))
os.write(1, b"ready\\n")
agent.join()
"""


class Counts(Form):
    """Whoever tells statistics."""

    def statistics(self) -> dict[str, Any]:
        """As those of an agent."""
        ...


class ReaderProcess:
    """Prints what it gets out of a mailbox with a name."""

    def __init__(self, endpoint: str, name: str, *topics: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", READER, endpoint, KEY, name, ",".join(topics)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )
        self.found: list[tuple[str, int]] = []
        self._changed = threading.Condition()
        self.ready = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                if line == "ready\n":
                    self.ready = True
                else:
                    topic, content = line.split()
                    self.found.append((topic, int(content)))
                self._changed.notify_all()

    def wait(self, until: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(until, TIMEOUT), self.found[-3:]

    def wait_ready(self) -> ReaderProcess:
        self.wait(lambda: self.ready)
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)
        self._thread.join(TIMEOUT)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> ReaderProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.kill()


class Faulty:
    """A forwarder before a REP endpoint that loses some requests and repeats others."""

    def __init__(self, endpoint: str, lost: float, repeated: float, seed: int) -> None:
        self._context = zmq.Context()
        self._front, self._back = self._context.socket(zmq.ROUTER), self._context.socket(zmq.DEALER)
        self._told, self._control = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        self._told.bind("inproc://control")
        self._control.connect("inproc://control")
        self._back.connect(endpoint)
        self._front.bind("tcp://127.0.0.1:*")
        self.endpoint = self._front.getsockopt_string(zmq.LAST_ENDPOINT)
        self._random, self._lost, self._repeated = Random(seed), lost, repeated
        self.faults = 0
        self.honest = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        poller = zmq.Poller()
        for each in (self._front, self._back, self._told):
            poller.register(each, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._told in ready:
                return
            if self._back in ready:
                self._front.send_multipart(self._back.recv_multipart())
            if self._front in ready:
                self._forward(self._front.recv_multipart())

    def _forward(self, frames: list[bytes]) -> None:
        dice = 1.0 if self.honest else self._random.random()
        if dice < self._lost + self._repeated:
            self.faults += 1
        if dice >= self._lost:
            self._back.send_multipart(frames)
        if self._lost <= dice < self._lost + self._repeated:
            self._back.send_multipart(frames)

    def close(self) -> None:
        self._control.send(b"")
        self._thread.join(TIMEOUT)
        self._context.destroy(0)

    def __enter__(self) -> Faulty:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@contextmanager
def publisher_and_reader() -> Iterator[tuple[Agent, Agent]]:
    with Agent(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        yield publisher, reader


def delivered(publisher: Counts) -> int:
    """What the readers of all mailboxes have acknowledged."""
    return sum(each["delivered"] for each in publisher.statistics()["mailboxes"])


POLICY = mailbox()


def subscribed(
    agent: Agent, endpoint: str, number: int, callback: Callable[[object], object] | None = None
) -> list[Subscription]:
    return [
        agent.subscribe(endpoint, "t", callback, policy=POLICY, key=f"key-{each}") for each in range(number)
    ]


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """How many Python functions this thread calls meanwhile, each turn of a generator included."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    gc.disable()  # finalizers of what others left would count
    sys.setprofile(count)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)
        gc.enable()


def in_mailboxes(publisher: Agent) -> list[int]:
    return [each["subscriptions"] for each in publisher.statistics()["mailboxes"]]


def taken(subscription: Subscription, number: int) -> list[str]:
    return [subscription.recv(TIMEOUT).key for _ in range(number)]


NAMED = mailbox(name="archive")


class Kept:
    """A callback that keeps what it gets."""

    def __init__(self) -> None:
        self.found: list[Notification] = []

    def __call__(self, notification: Notification) -> None:
        self.found.append(notification)

    def wait(self, count: int) -> list[Notification]:
        wait_until(lambda: len(self.found) >= count)
        return self.found
