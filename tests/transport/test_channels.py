from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import zmq

from pzc import CallTimeout, PeerLost
from pzc.protocol.frames import Buffer
from pzc.transport.channels import Channel

from tests.contract.rigs.calling import TIMEOUT, until

FRAMES = [b"0", b"1", b"2", b"3", b"4"]


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made = zmq.Context()
    yield made
    made.destroy(0)


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


def exchange(channel: Channel, server: zmq.Socket[bytes]) -> list[Buffer]:
    channel.send(FRAMES, soon())
    assert server.poll(int(TIMEOUT * 1000))
    server.send_multipart(server.recv_multipart()[::-1])
    return channel.receive(soon(), threading.Event())


def test_a_plain_rep_socket_answers_a_channel(
    context: zmq.Context[zmq.Socket[bytes]], server: zmq.Socket[bytes]
) -> None:
    channel = Channel(context, endpoint_of(server))
    assert exchange(channel, server) == FRAMES[::-1]
    channel.close()


def test_nobody_there_is_peer_lost_and_nothing_is_left_to_be_sent_later(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    with socket.socket() as reserved:  # bound and not listening: whoever connects is refused
        reserved.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"
        channel = Channel(context, endpoint)
        channel.send(FRAMES, soon())
        with pytest.raises(PeerLost, match="nothing listens at that port"):
            channel.receive(soon(0.05), threading.Event())
        channel.close()
    with context.socket(zmq.REP) as late:
        late.bind(endpoint)
        fresh = Channel(context, endpoint)
        fresh.send([b"new"] * 5, soon())
        assert late.poll(int(TIMEOUT * 1000))
        assert late.recv_multipart() == [b"new"] * 5
        fresh.close()


def test_a_peer_that_went_during_the_call_is_lost(
    context: zmq.Context[zmq.Socket[bytes]], server: zmq.Socket[bytes]
) -> None:
    channel = Channel(context, endpoint_of(server))
    channel.send(FRAMES, soon())
    assert server.poll(int(TIMEOUT * 1000))
    server.close(0)
    with pytest.raises(PeerLost, match="lost during the call, which may or may not have run"):
        channel.receive(soon(0.5), threading.Event())
    channel.close()


def test_a_reply_of_a_peer_that_goes_at_once_is_not_lost(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    for _ in range(50):
        server = context.socket(zmq.REP)
        server.bind("tcp://127.0.0.1:*")
        channel = Channel(context, endpoint_of(server))
        channel.send(FRAMES, soon())
        assert server.poll(int(TIMEOUT * 1000))
        server.send_multipart(server.recv_multipart())
        server.close(1000)
        assert channel.receive(soon(), threading.Event()) == FRAMES
        channel.close()


def test_a_channel_whose_peer_has_gone_is_not_idle_when_another_one_is_there(
    context: zmq.Context[zmq.Socket[bytes]], server: zmq.Socket[bytes]
) -> None:
    channel = Channel(context, endpoint_of(server))
    assert exchange(channel, server) == FRAMES[::-1]
    assert channel.idle()
    server.close(1000)
    with context.socket(zmq.DEALER) as other:
        until(lambda: is_bound(other, channel.endpoint))
        other.send_multipart([b"", *FRAMES])  # goes when the channel has connected again
        until(lambda: heard(channel) == FRAMES)
        assert not channel.idle()
    channel.close()


def is_bound(socket: zmq.Socket[bytes], endpoint: str) -> bool:
    with suppress(zmq.ZMQError):  # libzmq gives an address back some time after its socket was closed
        socket.bind(endpoint)
        return True
    return False


def heard(channel: Channel) -> list[Buffer] | None:
    with suppress(PeerLost, CallTimeout):
        return channel.receive(soon(0), threading.Event())
    return None
