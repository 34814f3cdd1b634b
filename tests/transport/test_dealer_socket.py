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
from pzc.transport.dealer_socket import DealerSocket

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


def exchange(dealer: DealerSocket, server: zmq.Socket[bytes]) -> list[Buffer]:
    dealer.send(FRAMES, soon())
    assert server.poll(int(TIMEOUT * 1000))
    server.send_multipart(server.recv_multipart()[::-1])
    return dealer.receive(soon(), threading.Event())


def test_a_plain_rep_socket_answers_a_channel(
    context: zmq.Context[zmq.Socket[bytes]], server: zmq.Socket[bytes]
) -> None:
    dealer = DealerSocket(context, endpoint_of(server))
    assert exchange(dealer, server) == FRAMES[::-1]
    dealer.close()


def test_nobody_there_is_peer_lost_and_nothing_is_left_to_be_sent_later(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    with socket.socket() as reserved:  # bound and not listening: whoever connects is refused
        reserved.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"
        dealer = DealerSocket(context, endpoint)
        dealer.send(FRAMES, soon())
        with pytest.raises(PeerLost, match="nothing listens at that port"):
            dealer.receive(soon(0.05), threading.Event())
        dealer.close()
    with context.socket(zmq.REP) as late:
        late.bind(endpoint)
        fresh = DealerSocket(context, endpoint)
        fresh.send([b"new"] * 5, soon())
        assert late.poll(int(TIMEOUT * 1000))
        assert late.recv_multipart() == [b"new"] * 5
        fresh.close()


def test_a_peer_that_went_during_the_call_is_lost(
    context: zmq.Context[zmq.Socket[bytes]], server: zmq.Socket[bytes]
) -> None:
    dealer = DealerSocket(context, endpoint_of(server))
    dealer.send(FRAMES, soon())
    assert server.poll(int(TIMEOUT * 1000))
    server.close(0)
    with pytest.raises(PeerLost, match="lost during the call, which may or may not have run"):
        dealer.receive(soon(0.5), threading.Event())
    dealer.close()


def test_a_reply_of_a_peer_that_goes_at_once_is_not_lost(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    for _ in range(50):
        server = context.socket(zmq.REP)
        server.bind("tcp://127.0.0.1:*")
        dealer = DealerSocket(context, endpoint_of(server))
        dealer.send(FRAMES, soon())
        assert server.poll(int(TIMEOUT * 1000))
        server.send_multipart(server.recv_multipart())
        server.close(1000)
        assert dealer.receive(soon(), threading.Event()) == FRAMES
        dealer.close()


def test_a_channel_whose_peer_has_gone_is_not_idle_when_another_one_is_there(
    context: zmq.Context[zmq.Socket[bytes]], server: zmq.Socket[bytes]
) -> None:
    dealer = DealerSocket(context, endpoint_of(server))
    assert exchange(dealer, server) == FRAMES[::-1]
    assert dealer.idle()
    server.close(1000)
    with context.socket(zmq.DEALER) as other:
        until(lambda: is_bound(other, dealer.endpoint))
        other.send_multipart([b"", *FRAMES])  # goes when the dealer has connected again
        until(lambda: heard(dealer) == FRAMES)
        assert not dealer.idle()
    dealer.close()


def is_bound(socket: zmq.Socket[bytes], endpoint: str) -> bool:
    with suppress(zmq.ZMQError):  # libzmq gives an address back some time after its socket was closed
        socket.bind(endpoint)
        return True
    return False


def heard(dealer: DealerSocket) -> list[Buffer] | None:
    with suppress(PeerLost, CallTimeout):
        return dealer.receive(soon(0), threading.Event())
    return None
