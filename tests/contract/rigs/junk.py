"""Bytes that are no message, sent to an agent as they are."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from pzc import Agent, Protocol

from tests.contract.rigs.calling import KEY, TIMEOUT

GREETING = b"\xff" + bytes(8) + b"\x7f\3\0NULL" + bytes(16) + bytes(32)
READY = {
    kind: b"\5READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind for kind in (b"DEALER", b"SUB")
}


def command(body: bytes) -> bytes:
    return bytes((4, len(body))) + body


def send_raw(endpoint: str, data: bytes) -> None:
    """Send bytes over TCP and wait until the other side has had them and hung up."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as peer:
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):
                pass
        except OSError:
            return


@pytest.fixture(params=["", KEY], ids=["unsigned", "signed"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Agent, Agent]]:
    """An agent to be maltreated, and one that uses it meanwhile."""
    with Agent(protocol=Protocol(request.param)) as agent, Agent(protocol=Protocol(request.param)) as client:
        yield agent, client


def works(agent: Agent, client: Agent) -> bool:
    """Requests and notifications both get through."""
    subscription = client.subscribe(agent.rep_endpoint, "t", timeout=TIMEOUT)
    agent.publish("t", 7)
    got = subscription.recv(TIMEOUT).content
    subscription.close()
    return got == 7 and client.request(agent.rep_endpoint, {"a": 1}, TIMEOUT) == {"a": 1}
