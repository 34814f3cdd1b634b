"""What strangers and observers could do, beside what is told of keys and of decoding."""

from __future__ import annotations

import logging
import os
import struct
from pathlib import Path

import pytest
import zmq

from pzc import Agent, Protocol, Server

from tests.contract.findings.marks import finding
from tests.contract.rigs.peers import BareSubscriber
from tests.contract.rigs.supply import TIMEOUT, Supply

KEY = "a key that both sides know"
MIB = 1 << 20


def resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Stranger(BareSubscriber):
    """Sends frames to a ROUTER."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint, b"DEALER")

    def send_part(self, part: bytes) -> bool:
        """One more frame of a message that never ends; False when the other side hung up."""
        try:
            self._socket.sendall(b"\3" + struct.pack(">Q", len(part)) + part)
        except OSError:
            return False
        return True


@finding("4.13", open=True, reason="all parts are kept until the last one comes")
def test_a_message_that_never_ends_takes_no_memory_without_bound() -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        stranger, before, part = Stranger(agent.rep_endpoint), resident(), bytes(MIB)
        try:
            for _ in range(256):
                if not stranger.send_part(part):
                    break
            assert resident() - before < 160 * MIB
        finally:
            stranger.close()


@finding("4.18")
def test_control_characters_of_a_stranger_do_not_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    call = ("PSMessage", "exec", {"name": "trip", "method": "__call__", "args": [], "kwargs": {}})
    frames = Protocol(serializer="json", dialect="PZC00").format("\x1b[2J\r\nall is lost", "", call)
    with Server(Supply()) as server, zmq.Context() as context, context.socket(zmq.REQ) as client:
        client.setsockopt(zmq.LINGER, 0)
        client.connect(server.rep_endpoint)
        client.send_multipart(frames)
        assert client.poll(int(TIMEOUT * 1000))
        client.recv_multipart()
    told = [record.getMessage() for record in caplog.records]
    assert any("trip" in message for message in told)
    assert not [message for message in told if set("\x1b\r") & set(message)]
