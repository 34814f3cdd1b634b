"""What a listener takes and refuses of a client that is in the hands of a test."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from pzc import Agent, PeerLost, Protocol, Server, SignatureError
from pzc.agents.server import connection, listener
from pzc.protocol.contents import read_refusal

from tests.agents.streaming import COUNT, ME, WAIT, StreamClient, connected
from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, counts, in_thread, run_in_fork, until

NOBODY = 65534
CARRIERS = [pytest.param("unix", marks=pytest.mark.needs("unix")), "tcp"]

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def server(gate: Gate) -> Iterator[Server]:
    with Server(gate, protocol=Protocol(KEY)) as made:
        yield made
        gate.opened.set()


def connections(server: Server) -> int:
    return server.statistics()["calls"]["connections"]


def hung_up(client: StreamClient) -> bool:
    with pytest.raises(PeerLost):
        client.receive()
    return True


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("key", ["", KEY], ids=["unsigned", "signed"])
def test_a_request_is_answered_over_its_stream(gate: Gate, carrier: str, key: str) -> None:
    with Server(gate, protocol=Protocol(key)) as server, StreamClient(server, key, carrier) as client:
        assert client.ask("ping") == "pong"
        assert [client.ask(COUNT)[2] for _ in range(3)] == [1, 2, 3]
        assert client.ask(COUNT, "pickle")[2] == 4
        assert client.agreement.peer_id == server.agent_id


def test_another_key_is_refused_counted_and_logged_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pzc.stream")
    for _ in range(5):
        with pytest.raises(SignatureError):
            StreamClient(server, "another key of the lab")
    until(lambda: counts(server).get("stream_refused") == 5)
    assert len([each for each in caplog.messages if "was refused" in each]) < 5
    with StreamClient(server) as client:
        assert client.ask("ping") == "pong"


def test_no_key_is_refused_where_there_is_one(server: Server) -> None:
    with pytest.raises(SignatureError):
        StreamClient(server, "")
    until(lambda: counts(server).get("stream_refused") == 1)


def test_a_client_of_another_agent_is_refused(server: Server) -> None:
    with pytest.raises(PeerLost):
        StreamClient(server, target="0" * 32)
    until(lambda: counts(server).get("stream_refused") == 1)


def test_a_header_of_somebody_else_ends_the_connection(server: Server, gate: Gate) -> None:
    with StreamClient(server) as client:
        client.send(COUNT, sender="e" * 32)
        assert hung_up(client)
    assert gate.calls == 0


def test_a_message_id_of_another_form_ends_the_connection(server: Server, gate: Gate) -> None:
    with StreamClient(server) as client:
        client.send(COUNT, msgid="urn:uuid:00000000-0000-0000-0000-000000000000")
        assert hung_up(client)
    assert gate.calls == 0


def test_a_serializer_that_is_not_accepted_is_refused_and_the_next_request_answered(gate: Gate) -> None:
    with (
        Server(gate, protocol=Protocol(KEY, accept_serializers=["msgpack", "json"])) as server,
        StreamClient(server) as client,
    ):
        assert type(read_refusal(client.ask(COUNT, "pickle"))).__name__ == "SerializerRefused"
        assert client.ask("ping") == "pong"


def test_a_client_that_hangs_up_gives_up_its_call(
    server: Server, gate: Gate, timings: Callable[..., None]
) -> None:
    timings(silence=0.2)
    with StreamClient(server) as client:
        client.send(WAIT)
        assert gate.entered.wait(TIMEOUT)
        running = server._answering.calls.all()[0]
    until(lambda: running.cancelled)


def test_what_nobody_asks_over_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE", 0.1)
    with StreamClient(server) as client:
        assert hung_up(client)


def test_a_call_that_another_thread_answers_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE", 1.0)
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY), thread_affine=True) as server, StreamClient(server) as client:
        client.send(WAIT)
        assert gate.entered.wait(TIMEOUT)
        assert not client.stream.ready(1.5)
        gate.opened.set()
        assert client.receive()[1][2] == "through"


def test_no_key_has_more_than_half_of_the_connections(server: Server, timings: Callable[..., None]) -> None:
    timings(connections=4)
    with StreamClient(server), StreamClient(server) as second:
        with pytest.raises(PeerLost, match="takes no more streams"):
            StreamClient(server)
        assert second.ask("ping") == "pong"
    assert counts(server)["stream_turned_away"] == 1


def test_the_newest_handshake_pushes_out_the_oldest(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE", TIMEOUT)
    host, port = server.stream_endpoint[6:].split(":")
    with contextlib.ExitStack() as stack:
        strangers = [
            stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT)) for _ in range(70)
        ]
        assert [each.recv(1) for each in strangers[:6]] == [b""] * 6
        with StreamClient(server) as client:
            assert client.ask("ping") == "pong"
    assert counts(server)["stream_pushed_out"] >= 7


def test_a_stranger_has_two_seconds(server: Server) -> None:
    host, port = server.stream_endpoint[6:].split(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as stranger:
        stranger.sendall(b"\2")
        assert stranger.recv(1) == b""
    assert connections(server) == 0


@only_root
@pytest.mark.needs("unix")
def test_another_user_is_turned_away_at_the_unix_socket(server: Server) -> None:
    def knock() -> None:
        os.setuid(NOBODY)
        with contextlib.suppress(ConnectionError):
            with socket.socket(socket.AF_UNIX) as other:
                other.settimeout(TIMEOUT)
                other.connect(f"\0pzc/stream/{server.agent_id}")
                assert other.recv(1) == b""

    assert run_in_fork(knock) == 0
    until(lambda: counts(server).get("stream_turned_away") == 1)


def test_the_call_that_runs_is_answered_when_the_server_is_stopped(server: Server, gate: Gate) -> None:
    with StreamClient(server) as client, StreamClient(server, me="e" * 32) as idle:
        client.send(WAIT)
        assert gate.entered.wait(TIMEOUT)
        thread, _ = in_thread(server.stop)
        assert hung_up(idle)
        gate.opened.set()
        assert client.receive()[1][2] == "through"
        assert hung_up(client)
        thread.join(TIMEOUT)


def test_a_client_that_reads_no_answers_holds_up_no_other_agent_of_the_process(server: Server) -> None:
    hello = {"pzc": "hello", "challenge": "c" * 64}
    with Agent(protocol=Protocol(KEY)) as other, StreamClient(server) as client:
        client.stream.ready(0.0)
        with contextlib.suppress(PeerLost):
            for _ in range(20_000):
                client.send(hello)
        assert other.request(server.rep_endpoint, "ping", TIMEOUT) == "pong"
    until(lambda: counts(server).get("replies_lost"))


@pytest.mark.needs("unix")
def test_after_stop_neither_socket_can_be_reached(server: Server) -> None:
    server.stop()
    for carrier in ("unix", "tcp"):
        with pytest.raises(PeerLost):
            connected(server, carrier)
    assert ME
