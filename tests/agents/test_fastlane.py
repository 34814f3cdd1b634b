from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import Agent, PeerLost, Protocol, Server
from pzc.protocol import limits
from pzc.protocol.contents import read_refusal
from pzc.protocol.frames import PZC01
from pzc.transport import greeting
from pzc.transport.stream import Stream

from tests.agents.knocking import ME, NEVER, Knocker
from tests.contract.rigs.calling import (
    KEY,
    TIMEOUT,
    Gate,
    RawPeer,
    ServerProcess,
    counts,
    in_thread,
    proxied,
    run_in_fork,
    served,
)

NOBODY = 65534

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def statistics(proxy: Any) -> dict[str, Any]:
    return proxy._proxy_remote.ask({"pzc": "statistics"}).content["calls"]


def call(name: str) -> tuple[str, str, dict[str, str]]:
    return "PSMessage", "exec", {"name": name, "method": "__call__"}


@contextmanager
def knocking(agent: Agent, key: str = KEY) -> Iterator[Knocker]:
    made = Knocker(agent, key)
    try:
        yield made
    finally:
        made.stream.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def server(gate: Gate) -> Iterator[Server]:
    with Server(gate, protocol=Protocol(KEY)) as made:
        yield made
        gate.opened.set()


def refused(answer: object) -> str:
    error = read_refusal(answer)
    assert error is not None, answer
    return type(error).__name__


def until(condition: Any) -> None:
    """Wait for what another thread is about to do."""
    pause, deadline = threading.Event(), time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.005)


def test_requests_of_one_connection_are_answered_in_order(server: Server) -> None:
    with knocking(server) as client:
        assert [client.ask(call("count"))[2] for _ in range(20)] == list(range(1, 21))


def test_a_connection_that_reads_on_answers_others_while_a_call_runs(server: Server, gate: Gate) -> None:
    with knocking(server) as knocker:
        assert knocker.ask({"pzc": "pipeline"}) == {"pzc": "pipeline"}
        knocker.send(knocker.frames(call("wait")))
        assert gate.entered.wait(TIMEOUT)
        assert knocker.ask("ping") == "pong"
        for _ in range(3):
            knocker.send(knocker.frames(call("count")))
        gate.opened.set()
        found = [tuple(knocker.receive()) for _ in range(4)]
    assert found == [("PSMessage", "return", each) for each in ("through", 2, 3, 4)]


def test_a_frame_that_is_sent_again_on_its_connection_is_refused(server: Server, gate: Gate) -> None:
    with knocking(server) as client:
        frames = client.frames(call("count"))
        client.send(frames)
        assert client.receive()[2] == 1
        client.send(frames)
        assert refused(client.receive()) == "ReplayedMessage"
    assert gate.calls == 1


def test_an_older_frame_is_refused_after_a_newer_one(server: Server, gate: Gate) -> None:
    with knocking(server) as client:
        older, newer = client.frames(call("count")), client.frames(call("count"))
        client.send(newer)
        client.receive()
        client.send(older)
        assert refused(client.receive()) == "ReplayedMessage"
    assert gate.calls == 1


def test_a_frame_is_refused_on_every_other_connection(server: Server, gate: Gate) -> None:
    with knocking(server) as one, knocking(server) as other:
        frames = one.frames(call("count"))
        one.send(frames)
        one.receive()
        other.send(frames)
        assert refused(other.receive()) == "SignatureError"
        other.send(one.frames(call("count")))
        assert refused(other.receive()) == "SignatureError"
    assert gate.calls == 1


def test_a_frame_without_the_nonce_of_the_connection_is_refused(server: Server, gate: Gate) -> None:
    with knocking(server) as client:
        for nonce in ("", "0" * 32):
            client.send(client.frames(call("count"), nonce))
            assert refused(client.receive()) == "SignatureError"
        client.send(client._protocol.encode(ME, "", call("count"), receiver=server.agent_id, dialect=PZC01))
        assert refused(client.receive()) == "SignatureError"
    assert gate.calls == 0


def test_a_request_of_the_fast_lane_is_refused_over_tcp(server: Server, gate: Gate) -> None:
    with knocking(server) as client, RawPeer(server.rep_endpoint) as raw:
        raw.ask([bytes(frame) for frame in client.frames(call("count"))])
    assert gate.calls == 0
    assert counts(server)["requests_refused"] == 1


def test_another_key_is_refused_and_the_connection_goes_on(server: Server, gate: Gate) -> None:
    with knocking(server) as client, knocking(server, "another key of the lab") as stranger:
        stranger.send(stranger.frames(call("count")))
        stranger.stream.receive(time.monotonic() + TIMEOUT, NEVER)
        assert gate.calls == 0
        assert client.ask("ping") == "pong"


def test_bytes_that_are_no_message_end_that_connection_only(server: Server) -> None:
    with knocking(server) as client, knocking(server) as hostile:
        hostile.stream._socket.sendall(b"\xff" * 1000)
        with pytest.raises(PeerLost):
            hostile.stream.receive(time.monotonic() + TIMEOUT, NEVER)
        assert client.ask("ping") == "pong"
    until(lambda: len(server._answering.unix) == 0)


@only_root
def test_another_user_is_turned_away(server: Server) -> None:
    def knock() -> None:
        os.setuid(NOBODY)
        with socket.socket(socket.AF_UNIX) as other:
            other.settimeout(TIMEOUT)
            try:
                other.connect(f"\0pzc/{server.agent_id}")
                assert other.recv(1) == b""
            except ConnectionError:
                pass

    assert run_in_fork(knock) == 0
    until(lambda: counts(server).get("fast_lane_refused") == 1)
    assert len(server._answering.unix) == 0


@only_root
def test_a_fast_lane_of_another_user_is_not_spoken_to() -> None:
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as impostor:
                impostor.bind(f"\0pzc/{ME}")
                impostor.listen()
                os.write(ready[1], b"1")
                os.read(done[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(PeerLost, match="belongs to another user"):
        greeting.connect(ME, "tcp://somewhere:1")
    os.write(done[1], b"1")
    os.waitpid(pid, 0)
    for descriptor in (*ready, *done):
        os.close(descriptor)


def test_who_does_not_greet_as_the_agent_is_not_spoken_to() -> None:
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(f"\0pzc/{ME}")
        impostor.listen()

        def greet() -> None:
            accepted, _ = impostor.accept()
            stream = Stream(accepted, "the client")
            stream.send([b"PZC01+" + b"0" * 32 + b"+", b"", b"0" * 32, b"", b""], time.monotonic() + TIMEOUT)
            stream.close()

        thread, _ = in_thread(greet)
        with pytest.raises(PeerLost, match="did not greet as agent"):
            greeting.connect(ME, "tcp://somewhere:1")
        thread.join(TIMEOUT)


def test_who_does_not_greet_in_time_is_given_up(timings: Callable[..., None]) -> None:
    timings(greeting=0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"\0pzc/{ME}")
        silent.listen()
        with pytest.raises(PeerLost, match="did not answer"):
            greeting.connect(ME, "tcp://somewhere:1")


def test_a_client_that_hangs_up_while_its_call_waits_is_not_executed(
    server: Server, gate: Gate, timings: Callable[..., None]
) -> None:
    timings(lane_look=0.02)
    with knocking(server) as busy, knocking(server) as leaver:
        busy.send(busy.frames(call("wait")))
        assert gate.entered.wait(TIMEOUT)
        leaver.send(leaver.frames(call("count")))
        until(lambda: len(server._answering.lanes[0]) == 1)
        leaver.stream.close()
        until(lambda: len(server._answering.lanes[0]) == 0)
        gate.opened.set()
        busy.receive()
    assert gate.calls == 1


def test_a_client_that_hangs_up_while_its_call_runs_costs_the_others_nothing(
    server: Server, gate: Gate
) -> None:
    with knocking(server) as other:
        with knocking(server) as leaver:
            leaver.send(leaver.frames(call("wait")))
            assert gate.entered.wait(TIMEOUT)
        gate.opened.set()
        assert other.ask(call("count"))[2] == 2
    until(lambda: server._answering.lanes[0].running == [])


def test_stop_answers_the_call_that_runs_and_refuses_the_one_that_waits(server: Server, gate: Gate) -> None:
    with knocking(server) as running, knocking(server) as waiting, knocking(server) as idle:
        running.send(running.frames(call("wait")))
        assert gate.entered.wait(TIMEOUT)
        waiting.send(waiting.frames(call("count")))
        until(lambda: len(server._answering.lanes[0]) == 1)
        stopping, _ = in_thread(server.stop)
        assert refused(waiting.receive()) == "PeerLost"
        gate.opened.set()
        assert tuple(running.receive()) == ("PSMessage", "return", "through")
        stopping.join(TIMEOUT)
        for client in (running, waiting, idle):
            with pytest.raises(PeerLost):
                client.stream.receive(time.monotonic() + TIMEOUT, NEVER)
    assert gate.calls == 1


def test_after_stop_the_name_is_free_and_nobody_is_connected(server: Server) -> None:
    with knocking(server):
        server.stop()
    with pytest.raises(PeerLost, match="has no fast lane on this host"):
        greeting.connect(server.agent_id, server.rep_endpoint)
    assert len(server._answering.unix) == 0


def test_connections_beyond_the_bound_are_turned_away_and_use_tcp() -> None:
    connected: list[Stream] = []
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        for _ in range(300):
            with contextlib.suppress(PeerLost):
                connected.append(greeting.connect(server.agent_id, server.rep_endpoint)[0])
        assert len(server._answering.unix) == len(connected) == limits.current.connections
        with proxied(server.rep_endpoint, protocol=Protocol(KEY)) as proxy:
            assert proxy.count() == 1
        assert counts(server)["fast_lane_refused"] == 300 - limits.current.connections + 1
        for stream in connected:
            stream.close()
        until(lambda: len(server._answering.unix) == 0)


def test_many_at_once_do_not_exceed_the_bound(timings: Callable[..., None]) -> None:
    timings(connections=10)
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        knocks = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for knock in knocks:
            knock.connect(f"\0pzc/{server.agent_id}")
        until(lambda: counts(server).get("fast_lane_refused", 0) == 30)
        assert len(server._answering.unix) == 10
        for knock in knocks:
            knock.close()


def test_an_agent_without_a_free_name_is_reached_over_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(self: socket.socket, address: object) -> None:
        raise OSError(errno.EADDRINUSE, "in use")

    class Socket(socket.socket):
        bind = taken

    monkeypatch.setattr(greeting.sockets, "socket", Socket)
    with served(Gate(), key=KEY) as (server, proxy):
        assert server.describe()["lane"] == ""
        assert proxy.count() == 1


def test_a_killed_server_is_an_error_after_the_time_for_recovery(timings: Callable[..., None]) -> None:
    timings(call_recovery=0.3)
    with ServerProcess("Gate") as child, proxied(child.endpoint, protocol=Protocol(KEY)) as proxy:
        assert proxy.count() == 1
        thread, outcome = in_thread(proxy.wait)
        until(lambda: statistics(proxy)["running"] == 1)
        other, _ = in_thread(lambda: proxy.label)  # waits behind the first: it is there
        until(lambda: statistics(proxy)["waiting"] == 1)
        child.kill()
        for each in (thread, other):
            each.join(TIMEOUT)
    assert isinstance(outcome[0], PeerLost)
    assert outcome[0].call_id


def test_a_line_that_breaks_while_its_call_runs_costs_nothing(server: Server, gate: Gate) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        thread, outcome = in_thread(proxy.wait)
        assert gate.entered.wait(TIMEOUT)
        break_lines(server)
        gate.opened.set()
        thread.join(TIMEOUT)
        assert outcome == ["through"]
        assert counts(proxy._proxy_remote.agent)["calls_recovered"] == 1
    assert gate.calls == 1


def test_a_line_that_breaks_while_its_call_waits_does_not_execute_it_twice(
    server: Server, gate: Gate
) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        first, _ = in_thread(proxy.wait)
        assert gate.entered.wait(TIMEOUT)
        second, outcome = in_thread(proxy.count)
        until(lambda: len(server._answering.lanes[0]) == 1)
        break_lines(server)
        gate.opened.set()
        for thread in (first, second):
            thread.join(TIMEOUT)
    assert gate.calls == (2 if outcome == [2] else 1)


def break_lines(server: Server) -> None:
    """Cut every connection of the fast lane, as if its client's socket had failed."""
    for connection in list(server._answering.unix._connections):
        connection._socket.shutdown(socket.SHUT_RDWR)
