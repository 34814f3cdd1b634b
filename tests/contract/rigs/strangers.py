"""Whoever listens to a publisher without being asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import zmq

from pzc import Agent

TIMEOUT = 10.0


@contextmanager
def strangers(agent: Agent) -> Iterator[Callable[[], list[bytes]]]:
    """A subscriber to everything, which is there when this returns; the next notification that it gets."""
    context = zmq.Context()
    with context.socket(zmq.SUB) as socket:
        socket.connect(agent.pub_endpoint)
        socket.setsockopt(zmq.SUBSCRIBE, b"PZC0")

        def heard() -> list[bytes]:
            assert socket.poll(int(TIMEOUT * 1000)), "nothing came"
            return socket.recv_multipart()

        while not socket.poll(20):
            agent.publish("are you there", 0)
        while socket.poll(100):
            socket.recv_multipart()
        yield heard
    context.destroy(0)
