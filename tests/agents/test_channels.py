from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import zmq

from pzc import AgentClosed, CallTimeout, PeerLost
from pzc.agents import channels
from pzc.agents.channels import Channel, Channels

from tests.agents.calling import TIMEOUT

FRAMES = [b"0", b"1", b"2", b"3", b"4"]


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made = zmq.Context()
    yield made
    made.destroy(0)


@pytest.fixture
def pool(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Channels]:
    made = Channels(context)
    yield made
    made.close()


@pytest.fixture
def server(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    """A plain REP socket."""
    socket = context.socket(zmq.REP)
    socket.bind("tcp://127.0.0.1:*")
    return socket


def endpoint_of(socket: zmq.Socket[bytes]) -> str:
    return socket.getsockopt_string(zmq.LAST_ENDPOINT)


def soon(seconds: float = TIMEOUT) -> float:
    return time.monotonic() + seconds


def exchange(channel: Channel, server: zmq.Socket[bytes]) -> list[bytes]:
    channel.send(FRAMES)
    assert server.poll(int(TIMEOUT * 1000))
    server.send_multipart(server.recv_multipart()[::-1])
    return channel.receive(soon(), threading.Event())


def test_a_plain_rep_socket_answers_a_channel(pool: Channels, server: zmq.Socket[bytes]) -> None:
    channel = pool.take(endpoint_of(server))
    assert exchange(channel, server) == FRAMES[::-1]
    pool.give(channel)


def test_a_channel_that_was_given_back_is_used_again(pool: Channels, server: zmq.Socket[bytes]) -> None:
    first = pool.take(endpoint_of(server))
    exchange(first, server)
    pool.give(first)
    second = pool.take(endpoint_of(server))
    assert second is first
    pool.give(second)


def test_two_users_at_once_have_two_channels(pool: Channels, server: zmq.Socket[bytes]) -> None:
    one, two = pool.take(endpoint_of(server)), pool.take(endpoint_of(server))
    assert one is not two
    pool.give(one)
    pool.give(two)


def test_a_channel_whose_reply_never_came_is_never_used_again(
    pool: Channels, server: zmq.Socket[bytes]
) -> None:
    first = pool.take(endpoint_of(server))
    first.send(FRAMES)
    with pytest.raises(CallTimeout):
        first.receive(soon(0.01), threading.Event())
    pool.discard(first)
    assert server.poll(int(TIMEOUT * 1000))
    server.send_multipart(server.recv_multipart())  # the late reply of the first
    second = pool.take(endpoint_of(server))
    assert exchange(second, server) == FRAMES[::-1]
    pool.give(second)


def test_only_a_bounded_number_of_idle_channels_is_kept(pool: Channels, server: zmq.Socket[bytes]) -> None:
    taken = [pool.take(endpoint_of(server)) for _ in range(channels.MAX_IDLE + 3)]
    for channel in taken:
        exchange(channel, server)
    for channel in taken:
        pool.give(channel)
    again = [pool.take(endpoint_of(server)) for _ in taken]
    assert len(set(again) & set(taken)) == channels.MAX_IDLE
    for channel in again:
        pool.discard(channel)


def test_nobody_there_is_peer_lost_and_nothing_is_left_to_be_sent_later(
    pool: Channels, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    with socket.socket() as reserved:  # bound and not listening: whoever connects is refused
        reserved.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"
        channel = pool.take(endpoint)
        channel.send(FRAMES)
        with pytest.raises(PeerLost, match="nobody answers there"):
            channel.receive(soon(0.05), threading.Event())
        pool.discard(channel)
    with context.socket(zmq.REP) as late:
        late.bind(endpoint)
        fresh = pool.take(endpoint)
        fresh.send([b"new"] * 5)
        assert late.poll(int(TIMEOUT * 1000))
        assert late.recv_multipart() == [b"new"] * 5
        pool.discard(fresh)


def test_a_peer_that_went_during_the_call_is_lost(pool: Channels, server: zmq.Socket[bytes]) -> None:
    channel = pool.take(endpoint_of(server))
    channel.send(FRAMES)
    assert server.poll(int(TIMEOUT * 1000))
    server.close(0)
    with pytest.raises(PeerLost, match="lost during the call, which may or may not have run"):
        channel.receive(soon(0.5), threading.Event())
    pool.discard(channel)


def test_a_reply_of_a_peer_that_goes_at_once_is_not_lost(
    pool: Channels, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    for _ in range(50):
        server = context.socket(zmq.REP)
        server.bind("tcp://127.0.0.1:*")
        channel = pool.take(endpoint_of(server))
        channel.send(FRAMES)
        assert server.poll(int(TIMEOUT * 1000))
        server.send_multipart(server.recv_multipart())
        server.close(1000)
        assert channel.receive(soon(), threading.Event()) == FRAMES
        pool.discard(channel)


def test_an_idle_channel_whose_peer_was_replaced_over_inproc_is_not_used(
    pool: Channels, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    for _ in range(2):
        with context.socket(zmq.REP) as server:
            server.bind("inproc://peer")
            channel = pool.take("inproc://peer")
            assert exchange(channel, server) == FRAMES[::-1]
            pool.give(channel)
            server.unbind("inproc://peer")


def test_forgotten_channels_are_closed(pool: Channels, server: zmq.Socket[bytes]) -> None:
    first = pool.take(endpoint_of(server))
    exchange(first, server)
    pool.give(first)
    pool.forget(endpoint_of(server))
    second = pool.take(endpoint_of(server))
    assert second is not first
    pool.give(second)


def test_close_ends_a_waiting_call_with_agent_closed(
    context: zmq.Context[zmq.Socket[bytes]], server: zmq.Socket[bytes]
) -> None:
    pool, waiting = Channels(context), threading.Event()
    raised: list[BaseException] = []

    def call() -> None:
        channel = pool.take(endpoint_of(server))
        try:
            channel.send(FRAMES)
            waiting.set()
            channel.receive(soon(), pool.closed)
        except AgentClosed as exc:
            raised.append(exc)
        finally:
            pool.discard(channel)

    thread = threading.Thread(target=call)
    thread.start()
    assert waiting.wait(TIMEOUT)
    pool.close()
    thread.join(TIMEOUT)
    assert len(raised) == 1


def test_after_close_no_channel_is_given_out(
    context: zmq.Context[zmq.Socket[bytes]], server: zmq.Socket[bytes]
) -> None:
    pool = Channels(context)
    pool.close()
    with pytest.raises(AgentClosed):
        pool.take(endpoint_of(server))
