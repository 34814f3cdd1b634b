"""An agent whose filters are watched, and bare sockets that subscribe to it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
import zmq

from pzc import Agent

from tests.contract.rigs.peers import TIMEOUT


class Publishes(Protocol):
    """Whoever has a PUB endpoint."""

    @property
    def pub_endpoint(self) -> str:
        """Where that is."""
        ...


class Watched(Agent):
    """Tells when its filters changed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.changes: queue.SimpleQueue[None] = queue.SimpleQueue()
        super().__init__(*args, **options)

    def on_subscribers(self) -> None:
        self.changes.put(None)

    def wait_until(self, condition: Any) -> None:
        while not condition():
            self.changes.get(timeout=TIMEOUT)


@pytest.fixture
def publisher() -> Iterator[Watched]:
    with Watched() as made:
        yield made


@pytest.fixture
def reader() -> Iterator[Agent]:
    with Agent() as made:
        yield made


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made = zmq.Context()
    yield made
    for socket in sockets:
        socket.close(0)
    sockets.clear()
    made.term()


sockets: list[zmq.Socket[bytes]] = []


def listen(context: zmq.Context[zmq.Socket[bytes]], agent: Publishes, prefix: str) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.SUB)
    sockets.append(socket)
    socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
    socket.connect(agent.pub_endpoint)
    socket.subscribe(prefix)
    return socket
