"""A captured handshake, which anybody may say again at any time, changes nothing at an agent."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import pzc
from pzc import Protocol, Server
from pzc.protocol.session import REFERENCES, Session
from pzc.protocol.signing import Party
from pzc.testing import Timings
from pzc.transport.wire import now_ms

from tests.contract.rigs.calling import RawPeer
from tests.contract.rigs.peers import KEY, TIMEOUT

ME = "a" * 32
WAIT = ("PSMessage", "exec", {"name": "wait", "timeout": 10 * TIMEOUT})


class Waiting:
    def __init__(self) -> None:
        self.began, self.cancelled = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.began.set()
        while not pzc.cancelled():
            self.cancelled.wait(0.01)
        self.cancelled.set()


def call(server: Server, content: object) -> list[Any]:
    """Frames of a call of an agent that is no more."""
    protocol = Protocol(KEY)
    assert protocol.codec.keyring is not None
    key = protocol.codec.keyring.active
    own, peer = Party(ME, 1, key), Party(server.agent_id, server.epoch, key)
    session = Session(protocol.codec, own, peer, asks=True, abilities=REFERENCES)
    return session.seal(content, now_ms(), 1)


@pytest.mark.parametrize("word", ["ping", {"pzc": "hello", "challenge": "c"}], ids=str)
def test_the_handshake_of_who_has_left_is_no_sign_of_its_life(word: object) -> None:
    waiting, captured = Waiting(), Protocol(KEY).format(ME, "", word)
    quick = Timings(call_look=0.05, way_lost=0.5)
    with quick, Server(waiting, protocol=Protocol(KEY)) as server, RawPeer(server.rep_endpoint) as stranger:
        with RawPeer(server.rep_endpoint) as caller:
            caller.socket.send_multipart(call(server, WAIT))
            assert waiting.began.wait(TIMEOUT)
        for _ in range(int(TIMEOUT / 0.05)):
            stranger.ask(captured)
            if waiting.cancelled.wait(0.05):
                return
    pytest.fail("the call of a caller that has left went on")
