from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
import zmq

from pzc import Agent, AgentClosed, CallTimeout, PeerLost, Protocol, Server
from pzc.agents.calling import lines
from pzc.agents.calling.lines import Line, Lines
from pzc.agents.calling.peers import Peer
from pzc.agents.serving import fastlane
from pzc.protocol.frames import Buffer

from tests.contract.rigs.calling import KEY, TIMEOUT, Instrument, Middle, proxied

FRAMES = [b"0", b"1", b"2", b"3", b"4"]

Context = zmq.Context[zmq.Socket[bytes]]


@pytest.fixture
def context() -> Iterator[Context]:
    made = zmq.Context()
    yield made
    made.destroy(0)


@pytest.fixture
def pool(context: Context) -> Iterator[Lines]:
    made = Lines(context)
    yield made
    made.close()


@pytest.fixture
def server(context: Context) -> zmq.Socket[bytes]:
    """A plain REP socket."""
    socket = context.socket(zmq.REP)
    socket.bind("tcp://127.0.0.1:*")
    return socket


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent() as made:
        yield made


@pytest.fixture
def client() -> Iterator[Agent]:
    with Agent() as made:
        yield made


def stranger(endpoint: str) -> Peer:
    return Peer(endpoint, "PZC01", "", 0, "", "", 0, {})


def at(socket: zmq.Socket[bytes]) -> Peer:
    return stranger(socket.getsockopt_string(zmq.LAST_ENDPOINT))


def soon(seconds: float = TIMEOUT) -> float:
    return time.monotonic() + seconds


def exchange(line: Line, server: zmq.Socket[bytes]) -> list[Buffer]:
    line.transport.send(FRAMES, soon())
    assert server.poll(int(TIMEOUT * 1000))
    server.send_multipart(server.recv_multipart()[::-1])
    return line.transport.receive(soon(), threading.Event())


def test_a_line_that_was_given_back_is_used_again(pool: Lines, server: zmq.Socket[bytes]) -> None:
    first = pool.take(at(server))
    assert exchange(first, server) == FRAMES[::-1]
    pool.give(first)
    second = pool.take(at(server))
    assert second is first
    pool.give(second)


def test_two_users_at_once_have_two_lines(pool: Lines, server: zmq.Socket[bytes]) -> None:
    one, two = pool.take(at(server)), pool.take(at(server))
    assert one is not two
    pool.give(one)
    pool.give(two)


def test_a_line_whose_reply_never_came_is_never_used_again(pool: Lines, server: zmq.Socket[bytes]) -> None:
    first = pool.take(at(server))
    first.transport.send(FRAMES, soon())
    with pytest.raises(CallTimeout):
        first.transport.receive(soon(0.01), threading.Event())
    pool.discard(first)
    assert server.poll(int(TIMEOUT * 1000))
    server.send_multipart(server.recv_multipart())  # the late reply of the first
    second = pool.take(at(server))
    assert exchange(second, server) == FRAMES[::-1]
    pool.give(second)


def test_only_a_bounded_number_of_idle_lines_is_kept(pool: Lines, server: zmq.Socket[bytes]) -> None:
    taken = [pool.take(at(server)) for _ in range(lines.MAX_IDLE + 3)]
    for line in taken:
        exchange(line, server)
    for line in taken:
        pool.give(line)
    again = [pool.take(at(server)) for _ in taken]
    assert len(set(again) & set(taken)) == lines.MAX_IDLE
    for line in again:
        pool.discard(line)


def test_an_idle_line_whose_peer_was_replaced_over_inproc_is_not_used(pool: Lines, context: Context) -> None:
    for _ in range(2):
        with context.socket(zmq.REP) as server:
            server.bind("inproc://peer")
            line = pool.take(stranger("inproc://peer"))
            assert exchange(line, server) == FRAMES[::-1]
            pool.give(line)
            server.unbind("inproc://peer")


def test_forgotten_lines_are_closed(pool: Lines, server: zmq.Socket[bytes]) -> None:
    first = pool.take(at(server))
    exchange(first, server)
    pool.give(first)
    pool.forget(at(server).endpoint)
    assert not first.transport.idle()
    second = pool.take(at(server))
    assert second is not first
    pool.give(second)


def test_close_ends_a_waiting_call_with_agent_closed(context: Context, server: zmq.Socket[bytes]) -> None:
    pool, waiting = Lines(context), threading.Event()
    raised: list[BaseException] = []

    def call() -> None:
        line = pool.take(at(server))
        try:
            line.transport.send(FRAMES, soon())
            waiting.set()
            line.transport.receive(soon(), pool.closed)
        except AgentClosed as exc:
            raised.append(exc)
        finally:
            pool.discard(line)

    thread = threading.Thread(target=call)
    thread.start()
    assert waiting.wait(TIMEOUT)
    pool.close()
    thread.join(TIMEOUT)
    assert len(raised) == 1


def test_after_close_no_line_is_given_out(context: Context, server: zmq.Socket[bytes]) -> None:
    pool = Lines(context)
    pool.close()
    with pytest.raises(AgentClosed):
        pool.take(at(server))


def test_a_line_that_is_given_back_while_the_pool_closes_is_closed(
    context: Context, server: zmq.Socket[bytes]
) -> None:
    pool = Lines(context)
    line = pool.take(at(server))
    exchange(line, server)
    thread = threading.Thread(target=pool.close)
    thread.start()
    assert pool.closed.wait(TIMEOUT)
    pool.give(line)
    thread.join(TIMEOUT)
    assert not line.transport.idle()


@pytest.mark.parametrize("forgotten", [False, True])
def test_the_pool_is_closed_when_the_last_line_that_is_being_closed_is(
    context: Context, server: zmq.Socket[bytes], monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    """Whoever closed the pool ends the context next, and with it the sockets of that line."""
    pool, over = Lines(context), threading.Event()
    line = pool.take(at(server))
    closing, real, seen = threading.Event(), line.transport.close, list[bool]()

    def close() -> None:
        closing.set()
        seen.append(over.wait(0.1))
        real()

    monkeypatch.setattr(line.transport, "close", close)
    if forgotten:
        pool.give(line)
        end = partial(pool.forget, line.endpoint)
    else:
        pool.closed.set()
        end = partial(pool.give, line)
    ending = threading.Thread(target=end)
    ending.start()
    assert closing.wait(TIMEOUT)
    pool.close(TIMEOUT)
    over.set()
    ending.join(TIMEOUT)
    assert seen == [False]


def test_a_line_given_back_while_its_endpoint_is_forgotten_stays_known(
    pool: Lines, server: zmq.Socket[bytes]
) -> None:
    peer = at(server)
    for _ in range(50):
        line = pool.take(peer)
        exchange(line, server)
        thread = threading.Thread(target=pool.forget, args=(peer.endpoint,))
        thread.start()
        pool.give(line)
        thread.join(TIMEOUT)
        known = pool._idle.get((peer.endpoint, "tcp"), [])
        assert line in known or not line.transport.idle()


def test_a_peer_of_this_host_is_called_over_a_unix_socket(agent: Agent, client: Agent, pool: Lines) -> None:
    line = pool.take(client.peer(agent.rep_endpoint))
    assert (line.kind, line.agent_id) == ("unix", agent.agent_id)
    pool.give(line)


def test_a_unix_line_that_was_given_back_is_used_again(agent: Agent, client: Agent, pool: Lines) -> None:
    peer = client.peer(agent.rep_endpoint)
    first = pool.take(peer)
    pool.give(first)
    second = pool.take(peer)
    assert second is first
    pool.give(second)


def test_tcp_is_used_when_it_is_asked_for(agent: Agent, client: Agent, pool: Lines) -> None:
    line = pool.take(client.peer(agent.rep_endpoint), "tcp")
    assert line.kind == "tcp"
    pool.give(line)


def test_a_peer_that_was_reached_by_a_forwarder_is_called_through_it(agent: Agent, pool: Lines) -> None:
    with Middle(agent.rep_endpoint, lambda way, number, frames: [frames]) as middle, Agent() as client:
        line = pool.take(client.peer(middle.endpoint))
        assert line.kind == "tcp"
        pool.give(line)


def test_a_peer_without_fast_lane_is_called_over_tcp(agent: Agent, client: Agent, pool: Lines) -> None:
    agent.loop.run(agent._answering.fast.stop_listening)
    line = pool.take(client.peer(agent.rep_endpoint))
    assert line.kind == "tcp"
    pool.give(line)


def test_a_fast_lane_that_failed_is_not_tried_again_until_the_peer_is_met_anew(
    agent: Agent, client: Agent, pool: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = client.peer(agent.rep_endpoint)
    attempts: list[str] = []

    def refuse(agent_id: str, *_: object) -> tuple[object, str]:
        attempts.append(agent_id)
        raise PeerLost("none")

    monkeypatch.setattr(fastlane, "connect", refuse)
    for _ in range(3):
        pool.discard(pool.take(peer))
    assert attempts == [agent.agent_id]
    pool.forget(peer.endpoint)
    pool.discard(pool.take(peer))
    assert len(attempts) == 2


def test_unix_that_is_asked_for_and_not_there_is_peer_lost(agent: Agent, client: Agent, pool: Lines) -> None:
    agent.loop.run(agent._answering.fast.stop_listening)
    with pytest.raises(PeerLost, match="has no fast lane on this host"):
        pool.take(client.peer(agent.rep_endpoint), "unix")
    assert pool._in_use == 0


def test_a_line_to_another_agent_is_not_used_for_its_successor(
    agent: Agent, client: Agent, pool: Lines
) -> None:
    peer = client.peer(agent.rep_endpoint)
    first = pool.take(peer)
    pool.give(first)
    with pytest.raises(PeerLost):
        pool.take(replace(peer, agent_id="0" * 32), "unix")
    assert not first.transport.idle()


def test_an_idle_unix_line_whose_agent_has_gone_is_not_used(client: Agent, pool: Lines) -> None:
    with Agent() as gone:
        peer = client.peer(gone.rep_endpoint)
        pool.give(pool.take(peer))
    with pytest.raises(PeerLost):
        pool.take(peer, "unix")


def test_what_was_told_in_the_handshake_decides_how_a_line_is_spoken_on(pool: Lines) -> None:
    with Agent(protocol=Protocol("key")) as agent, Agent(protocol=Protocol("key")) as client:
        peer = client.peer(agent.rep_endpoint)
        line = pool.take(peer, "tcp")
        assert dict(line.options) == lines.abilities(peer)
        assert lines.abilities(peer)["arrays"] == ("buffers" in peer.details["serializers"])
        pool.give(line)
    assert lines.abilities(replace(peer, dialect="PZC00")) == {}


def test_a_peer_of_another_process_cannot_be_reached_directly(pool: Lines) -> None:
    elsewhere = replace(stranger("tcp://127.0.0.1:9"), agent_id="ab" * 16)
    with pytest.raises(PeerLost, match="is not in this process"):
        pool.take(elsewhere, "inproc")


@pytest.mark.parametrize("serializer", ["pickle", "buffers", "json"])
def test_one_caller_needs_one_connection(serializer: str) -> None:
    with Server(Instrument(), protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY, serializer), transport="unix") as proxy:
            for _ in range(10):
                assert proxy.ramp(2) == 4
            assert server.counters["fast_lane_connections"] == 1
