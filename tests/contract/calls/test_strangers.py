"""What strangers and observers could do, beside what is told of keys and of decoding."""

from __future__ import annotations

import logging
import socket
import struct
from pathlib import Path

import pytest
import zmq

from pzc import Agent, Protocol, ProtocolError, Proxy, Server
from pzc.testing import Timings

from tests.contract.rigs.peers import BareSubscriber
from tests.contract.rigs.supply import TIMEOUT, Supply

KEY = "a key that both sides know"
MIB = 1 << 20
PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"


class Stranger(BareSubscriber):
    """Sends frames to a ROUTER."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint, b"DEALER")

    def begin_frame(self, size: int) -> None:
        """The head of a frame that says how large it will be."""
        self._socket.sendall(b"\2" + struct.pack(">Q", size))

    def hung_up(self) -> bool:
        """Whether the other side closes the connection; fails when it does not in time."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True


def test_a_frame_that_is_too_large_for_a_stranger_ends_his_connection() -> None:
    with Timings(frame_bytes=MIB), Agent(protocol=Protocol(KEY)) as agent:
        stranger = Stranger(agent.rep_endpoint)
        try:
            stranger.begin_frame(2 * MIB)
            assert stranger.hung_up()
        finally:
            stranger.close()


def test_a_request_that_is_too_large_for_rep_is_refused_where_it_is_made() -> None:
    protocol = Protocol(KEY)
    with Timings(frame_bytes=MIB), Server(Supply(), protocol=protocol, single_port=True) as server:
        with Proxy(server.rep_endpoint, protocol=protocol, transport="tcp", timeout=TIMEOUT) as psu:
            with pytest.raises(ProtocolError, match="frame_bytes"):
                psu.back(bytes(2 * MIB))
            assert psu.back(b"small") == b"small"
        with Proxy(server.rep_endpoint, protocol=protocol, transport="unix", timeout=TIMEOUT) as psu:
            assert len(psu.back(bytes(2 * MIB))) == 2 * MIB


def test_half_a_handshake_is_closed_after_its_time() -> None:
    with Timings(handshake=0.2), Agent(protocol=Protocol(KEY)) as agent:
        host, _, port = agent.rep_endpoint.removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port)), TIMEOUT) as half:
            while half.recv(1024):  # libzmq's greeting, and then the end
                pass


@pytest.mark.parametrize(
    "what", ["Parts of one message", "Filters", "MemoryMax", "--single-port", "firewall"]
)
def test_what_libzmq_does_not_bound_is_told_with_the_remedy(what: str) -> None:
    assert what in PAGE.read_text(encoding="utf-8")


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
