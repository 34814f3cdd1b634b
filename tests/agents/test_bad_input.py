from __future__ import annotations

import os
import threading

import pytest
import zmq

from pzc import Agent

from tests.contract.rigs import junk
from tests.contract.rigs.calling import TIMEOUT, RawPeer
from tests.contract.rigs.junk import GREETING, command, send_raw, works

pair = junk.pair

STRANGE = [
    b"GET / HTTP/1.1\r\nHost: psu\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
    b"\xff" * 4096, b"", b"\n", GREETING[:10], GREETING[:12] + b"CURVE" + GREETING[17:],
    GREETING + command(b"\6BROKEN"), b"\1\0" + b"\x05\x00abcd" * 50,
]  # fmt: skip
"""What never becomes a peer."""


class Counted:
    """Wakes a test when something is counted."""

    def __init__(self, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
        self._changed = threading.Condition()
        self._agent = agent
        add = agent.counters.add

        def noted(name: str, count: int = 1) -> None:
            add(name, count)
            with self._changed:
                self._changed.notify_all()

        monkeypatch.setattr(agent.counters, "add", noted)

    def wait_for(self, name: str, count: int) -> None:
        def reached() -> bool:
            return self._agent.counters[name] >= count

        with self._changed:
            assert self._changed.wait_for(reached, TIMEOUT), self._agent.counters.as_dict()


@pytest.mark.parametrize("port", ["rep", "pub"])
def test_whoever_does_not_speak_zmq_is_counted_and_disturbs_nobody(
    pair: tuple[Agent, Agent], port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, client = pair
    counted = Counted(agent, monkeypatch)
    for data in STRANGE:
        send_raw(agent.rep_endpoint if port == "rep" else agent.pub_endpoint, data)
    counted.wait_for(f"{port}_strangers", len(STRANGE))
    assert works(agent, client)


def test_what_subscribers_send_to_the_pub_socket_is_counted_and_disturbs_nobody(
    pair: tuple[Agent, Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, client = pair
    counted = Counted(agent, monkeypatch)
    with RawPeer(agent.pub_endpoint, zmq.XSUB) as peer:
        for message in (b"\2junk", b"junk", b"\xff" * 2000, b"\3"):
            peer.socket.send(message)
        counted.wait_for("pub_malformed", 4)
        peer.socket.send(b"\1" + os.urandom(60))
        peer.socket.send(b"\0never subscribed")
        assert works(agent, client)
