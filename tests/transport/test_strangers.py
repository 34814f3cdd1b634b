"""What a stranger can take of a socket that listens, before anybody has proved anything."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from pzc import Agent, Protocol
from pzc.protocol.errors import LocalProtocolError
from pzc.transport.dealer_socket import DealerSocket

from tests.contract.rigs.calling import TIMEOUT, until
from tests.contract.rigs.peers import BareSubscriber
from tests.transport.streaming import message, soon

KEY = "a key that both sides know"
Timings = Callable[..., None]


@pytest.fixture
def agent(timings: Timings) -> Iterator[Agent]:
    timings(strangers=20, handshake=0.2, frame_bytes=1 << 20)
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


def connected(endpoint: str) -> socket.socket:
    host, port = endpoint.removeprefix("tcp://").split(":")
    return socket.create_connection((host, int(port)), TIMEOUT)


def is_hung_up(stranger: socket.socket) -> bool:
    """Whether the other side has ended the connection, maybe behind a greeting."""
    stranger.settimeout(TIMEOUT)
    try:
        while stranger.recv(100):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def test_who_says_nothing_is_hung_up(agent: Agent) -> None:
    with connected(agent.rep_endpoint) as stranger:
        assert is_hung_up(stranger)


def test_connections_beyond_the_bound_are_hung_up_until_others_go(agent: Agent) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(BareSubscriber(agent.rep_endpoint, b"DEALER"))
        with connected(agent.rep_endpoint) as late:
            assert is_hung_up(late)
        until(lambda: agent.counters["rep_strangers_turned_away"] == 1)
    with Agent(protocol=Protocol(KEY)) as other:
        assert other.request(agent.rep_endpoint, "ping", timeout=TIMEOUT)


def test_a_frame_beyond_the_bound_ends_its_connection(agent: Agent) -> None:
    with BareSubscriber(agent.rep_endpoint, b"DEALER") as stranger:
        with contextlib.suppress(ConnectionError):  # it may end before all was sent
            stranger.send(bytes((1 << 20) + 1))
        until(stranger.is_hung_up)


def test_a_content_beyond_the_bound_is_refused_where_it_would_be_sent(agent: Agent) -> None:
    dealer = DealerSocket(agent.loop.context, agent.rep_endpoint)
    with pytest.raises(LocalProtocolError, match="more than goes over TCP"):
        dealer.send(message(bytes((1 << 20) + 1)), soon())
    dealer.close()
