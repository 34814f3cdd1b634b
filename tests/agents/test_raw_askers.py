"""What comes from who speaks PZC01 without this package: captured messages, agents of odd names."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

import pzc
from pzc import LockedBy, Protocol, Proxy, Server
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


def request(server: Server, content: object, agent: str = ME) -> list[Any]:
    """Frames of a request of that agent."""
    protocol = Protocol(KEY)
    assert protocol.codec.keyring is not None
    key = protocol.codec.keyring.active
    own, peer = Party(agent, 1, key), Party(server.agent_id, server.epoch, key)
    session = Session(protocol.codec, own, peer, asks=True, abilities=REFERENCES)
    return session.seal(content, now_ms(), 1)


@pytest.mark.parametrize("word", ["ping", {"pzc": "hello", "challenge": "c"}], ids=str)
def test_the_handshake_of_who_has_left_is_no_sign_of_its_life(word: object) -> None:
    waiting, captured = Waiting(), Protocol(KEY).format(ME, "", word)
    with Server(waiting, protocol=Protocol(KEY)) as server, RawPeer(server.rep_endpoint) as stranger:
        with RawPeer(server.rep_endpoint) as caller:
            caller.socket.send_multipart(request(server, WAIT))
            assert waiting.began.wait(TIMEOUT)
        for _ in range(int(TIMEOUT / 0.05)):
            stranger.ask(captured)
            if waiting.cancelled.wait(0.05):
                return
    pytest.fail("the call of a caller that has left went on")


def test_the_id_of_an_agent_steers_no_terminal(caplog: pytest.LogCaptureFixture) -> None:
    agent, quick = "\x1b[2J", Timings(silence=0.5)
    with caplog.at_level(logging.INFO), quick, Server(object(), protocol=Protocol(KEY)) as server:
        with RawPeer(server.rep_endpoint) as stranger:
            stranger.ask(request(server, {"pzc": "lock", "token": "token", "ttl": 60.0}, agent))
        proxy = Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT)
        try:
            with pytest.raises(LockedBy, match="locked by") as locked:
                pzc.lock(proxy, wait=0.0)
            with pzc.lock(proxy, wait=TIMEOUT):  # once the other one is silent
                pass
        finally:
            pzc.close(proxy)
    assert agent not in str(locked.value)
    assert "is silent" in caplog.text
    assert agent not in caplog.text
