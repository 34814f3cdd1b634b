"""What a Unix listener refuses of a connection that is in the hands of a test."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import Agent, PeerLost, Protocol, Server
from pzc.protocol.contents import read_refusal
from pzc.protocol.frames import PZC01, Buffer, Kind
from pzc.transport import greeting

from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, RawPeer, counts, proxied, run_in_fork, until

NEVER = threading.Event()
ME = "f" * 32
NOBODY = 65534
COUNT = ("PSMessage", "exec", {"name": "count", "method": "__call__"})

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


class Knocker:
    """A connection to a Unix listener in the hands of a test, which speaks as agent ``ME``."""

    def __init__(self, agent: Agent, key: str = KEY) -> None:
        self.protocol = Protocol(key)
        self._to = agent.agent_id
        self.stream, self.nonce = greeting.connect(agent.agent_id, agent.rep_endpoint)

    def frames(self, content: object, nonce: str | None = None) -> list[Buffer]:
        receiver = f"{self._to}/{self.nonce if nonce is None else nonce}"
        return self.protocol.encode(ME, "", content, receiver=receiver, dialect=PZC01)

    def send(self, frames: list[Buffer]) -> None:
        self.stream.send(frames, time.monotonic() + TIMEOUT)

    def receive(self) -> Any:
        frames = self.stream.receive(time.monotonic() + TIMEOUT, NEVER)
        envelope = self.protocol.open(
            frames, Kind.REPLY, receiver=f"{ME}/{self.nonce}", judge_time=False
        )  # fmt: skip
        return envelope.decode()

    def ask(self, content: object) -> Any:
        self.send(self.frames(content))
        return self.receive()


@contextmanager
def knocking(agent: Agent, key: str = KEY) -> Iterator[Knocker]:
    made = Knocker(agent, key)
    try:
        yield made
    finally:
        made.stream.close()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def server(gate: Gate) -> Iterator[Server]:
    with Server(gate, protocol=Protocol(KEY)) as made:
        yield made


def connections(server: Server) -> int:
    return server.statistics()["calls"]["connections"]


def refused(answer: object) -> str:
    error = read_refusal(answer)
    assert error is not None, answer
    return type(error).__name__


def test_a_frame_is_taken_once_and_none_that_is_older_than_the_last(server: Server, gate: Gate) -> None:
    with knocking(server) as client:
        older, newer = client.frames(COUNT), client.frames(COUNT)
        client.send(newer)
        assert client.receive()[2] == 1
        for frames in (newer, older):
            client.send(frames)
            assert refused(client.receive()) == "ReplayedMessage"
    assert gate.calls == 1


def test_a_frame_is_refused_on_every_other_connection_and_over_tcp(server: Server, gate: Gate) -> None:
    with knocking(server) as one, knocking(server) as other, RawPeer(server.rep_endpoint) as raw:
        frames = one.frames(COUNT)
        one.send(frames)
        one.receive()
        for again in (frames, one.frames(COUNT)):
            other.send(again)
            assert refused(other.receive()) == "SignatureError"
        raw.ask([bytes(frame) for frame in one.frames(COUNT)])
    assert gate.calls == 1


def test_a_frame_without_the_nonce_of_the_connection_is_refused(server: Server, gate: Gate) -> None:
    with knocking(server) as client:
        unbound = client.protocol.encode(ME, "", COUNT, receiver=server.agent_id, dialect=PZC01)
        for frames in (client.frames(COUNT, ""), client.frames(COUNT, "0" * 32), unbound):
            client.send(frames)
            assert refused(client.receive()) == "SignatureError"
    assert gate.calls == 0


def test_another_key_is_refused_and_the_others_go_on(server: Server, gate: Gate) -> None:
    with knocking(server) as client, knocking(server, "another key of the lab") as stranger:
        stranger.send(stranger.frames(COUNT))
        stranger.stream.receive(time.monotonic() + TIMEOUT, NEVER)
        assert gate.calls == 0
        assert client.ask("ping") == "pong"


def test_bytes_that_are_no_message_end_that_connection_only(server: Server) -> None:
    with knocking(server) as client, socket.socket(socket.AF_UNIX) as hostile:
        hostile.settimeout(TIMEOUT)
        hostile.connect(f"\0pzc/{server.agent_id}")
        hostile.sendall(b"\xff" * 1000)
        with contextlib.suppress(ConnectionError):
            while hostile.recv(1000):
                pass
        assert client.ask("ping") == "pong"
    until(lambda: connections(server) == 0)


@only_root
def test_another_user_is_turned_away(server: Server) -> None:
    def knock() -> None:
        os.setuid(NOBODY)
        with socket.socket(socket.AF_UNIX) as other, contextlib.suppress(ConnectionError):
            other.settimeout(TIMEOUT)
            other.connect(f"\0pzc/{server.agent_id}")
            assert other.recv(1) == b""

    assert run_in_fork(knock) == 0
    until(lambda: counts(server).get("fast_lane_refused") == 1)
    assert connections(server) == 0


def test_connections_beyond_the_bound_are_turned_away_and_use_tcp(
    server: Server, timings: Callable[..., None]
) -> None:
    timings(connections=10)
    knocks = [socket.socket(socket.AF_UNIX) for _ in range(40)]
    for knock in knocks:
        knock.connect(f"\0pzc/{server.agent_id}")
    until(lambda: counts(server).get("fast_lane_refused", 0) == 30)
    assert connections(server) == 10
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        assert proxy.count() == 1
    for knock in knocks:
        knock.close()
    until(lambda: connections(server) == 0)


def test_after_stop_the_name_is_free(server: Server) -> None:
    with knocking(server):
        server.stop()
    with pytest.raises(PeerLost, match="has no fast lane on this host"):
        greeting.connect(server.agent_id, server.rep_endpoint)
