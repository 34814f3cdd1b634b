"""Connecting: a stream to an agent, the handshake on it, and what goes over it then."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest

from pzc.protocol.codec import Codec
from pzc.protocol.errors import CallTimeout, PeerLost, RemoteProtocolError, SignatureError
from pzc.protocol.frames import MAX_CONTENT
from pzc.protocol.handshake import MAX_MESSAGE, Agreement, ServerHandshake
from pzc.shm import machine
from pzc.transport import connecting
from pzc.transport.connecting import (
    accept_handshake,
    connect_tcp,
    connect_unix,
    handshake_with,
    stream_address,
)
from pzc.transport.stream import Stream

from tests.contract.rigs.calling import TIMEOUT
from tests.protocol.handshakes import CLIENT, KEYED, KEYLESS, OTHER, SEALING, SERVER, STRANGE, client, server

HEADERS = f"PZC01+{CLIENT}++0+".encode(), f"PZC01+{SERVER}++0+".encode()
URN = b"urn:uuid:01234567-89ab-8123-8123-0123456789ab"

needs_unix = pytest.mark.skipif(not machine.LANE, reason="Linux has abstract Unix sockets")
every_codec = pytest.mark.parametrize("codec", [KEYLESS, KEYED, SEALING], ids=["none", "hmac", "gcm"])


def soon() -> float:
    return monotonic() + TIMEOUT


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a function in another thread."""
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


@pytest.fixture
def ends() -> Iterator[tuple[Stream, Stream]]:
    """Of the client and of the server."""
    one, two = map(Stream, socket.socketpair())
    yield one, two
    one.close()
    two.close()


def met(ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]], codec: Codec) -> list[Agreement]:
    accepted = beside(accept_handshake, ends[1], server(codec), soon())
    return [handshake_with(ends[0], client(codec), soon()), accepted.result()]


@every_codec
def test_both_ends_agree(
    ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]], codec: Codec
) -> None:
    one, two = met(ends, beside, codec)
    assert (one.peer_id, two.peer_id, one.send_key, one.binding_id) == (
        SERVER,
        CLIENT,
        two.receive_key,
        two.binding_id,
    )


@every_codec
def test_messages_go_both_ways_afterwards(
    ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]], codec: Codec
) -> None:
    met(ends, beside, codec)
    for sender, receiver in (ends, ends[::-1]):
        sender.send(HEADERS[0], b"json", URN, b"x" * 2 * MAX_MESSAGE, soon())
        assert bytes(receiver.receive(soon())[3]) == b"x" * 2 * MAX_MESSAGE


def test_what_is_not_signed_is_refused_afterwards(
    ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]]
) -> None:
    accepted = beside(accept_handshake, ends[1], server(), soon())
    handshake, content = client(), b""
    for step in (lambda _content: handshake.hello(), handshake.answer):
        ends[0].send(HEADERS[0], b"json", URN, step(content) or b"", soon())
        content = bytes(ends[0].receive(soon())[3])
    accepted.result()
    ends[0].send(HEADERS[0], b"json", URN, b"1", soon())
    with pytest.raises(SignatureError):
        ends[1].receive(soon())


@pytest.mark.parametrize(
    ("one", "two"), [(STRANGE, KEYED), (KEYED, KEYLESS), (KEYLESS, KEYED)], ids=["key", "client", "server"]
)
def test_both_ends_say_why_they_do_not_agree(
    ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]], one: Codec, two: Codec
) -> None:
    accepted = beside(accept_handshake, ends[1], server(two), soon())
    with pytest.raises(SignatureError, match="PZC_KEY"):
        handshake_with(ends[0], client(one), soon())
    with pytest.raises(SignatureError, match="PZC_KEY"):
        accepted.result()


def test_a_refused_handshake_closes_both_ends(
    ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]]
) -> None:
    accepted = beside(accept_handshake, ends[1], server(), soon())
    with pytest.raises(PeerLost, match="restarted"):
        handshake_with(ends[0], client(target=OTHER), soon())
    assert isinstance(accepted.exception(), PeerLost)
    assert (ends[0].fileno(), ends[1].fileno()) == (-1, -1)


def test_a_server_without_room_says_so(
    ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]]
) -> None:
    def no_room(*_: str) -> bytes | None:
        raise PeerLost("no room for more connections")

    handshake = ServerHandshake(KEYED, SERVER, 2, "unix", bytes(64), no_room)
    beside(accept_handshake, ends[1], handshake, soon())
    with pytest.raises(PeerLost, match="no room"):
        handshake_with(ends[0], client(), soon())


def test_a_peer_that_says_nothing_is_not_waited_for_beyond_the_deadline(ends: tuple[Stream, Stream]) -> None:
    with pytest.raises(CallTimeout):
        accept_handshake(ends[1], server(), monotonic())
    assert ends[1].fileno() == -1


def test_a_client_that_does_not_finish_is_not_waited_for(ends: tuple[Stream, Stream]) -> None:
    ends[0].send(HEADERS[0], b"json", URN, client().hello(), soon())
    began = monotonic()
    with pytest.raises(CallTimeout):
        accept_handshake(ends[1], server(), began + 10 * TIMEOUT)
    assert monotonic() - began < TIMEOUT + connecting.FINISH


@pytest.mark.parametrize(
    "message",
    [
        (HEADERS[1], b"json", URN, None), (HEADERS[0], b"pickle", URN, None), (HEADERS[0], b"json", b"1", None),
        (HEADERS[0], b"json", URN, b" " * (MAX_MESSAGE + 1)), (HEADERS[0], b"json", URN, b"{}"),
    ],
    ids=["header", "serializer", "message id", "huge", "other"],
)  # fmt: skip
def test_a_server_refuses_what_is_no_hello(ends: tuple[Stream, Stream], message: tuple[Any, ...]) -> None:
    header, serializer, message_id, content = message
    ends[0].send(header, serializer, message_id, content or client(KEYLESS).hello(), soon())
    with pytest.raises(RemoteProtocolError):
        accept_handshake(ends[1], server(KEYLESS), soon())


@pytest.mark.parametrize(
    ("header", "message_id"), [(HEADERS[0], None), (HEADERS[1], URN)], ids=["header", "message id"]
)
def test_a_client_refuses_an_answer_of_another_agent_or_to_another_message(
    ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]], header: bytes, message_id: bytes | None
) -> None:
    def answer() -> None:
        _, _, asked, content = ends[1].receive(soon())
        ends[1].send(header, b"json", message_id or asked, server(KEYLESS).hello(content), soon())

    beside(answer)
    with pytest.raises(RemoteProtocolError):
        handshake_with(ends[0], client(KEYLESS), soon())


def test_a_stream_takes_contents_of_its_own_limit_after_the_handshake(
    ends: tuple[Stream, Stream], beside: Callable[..., Future[Any]]
) -> None:
    met(ends, beside, KEYED)
    assert {each.max_content for each in ends} == {MAX_CONTENT}


# Sockets


@pytest.fixture(params=["127.0.0.1", "::1"])
def listening(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        try:
            sock.bind((request.param, 0))
        except OSError:
            pytest.skip(f"this machine has no {request.param}")
        sock.listen()
        yield sock


def place(listening: socket.socket) -> tuple[str, int]:
    host, port = listening.getsockname()[:2]
    return host, port


def test_an_agent_is_reached_over_tcp(listening: socket.socket, beside: Callable[..., Future[Any]]) -> None:
    host, port = place(listening)
    stream = connect_tcp(f"[{host}]" if ":" in host else host, port, soon())
    accepted = Stream(listening.accept()[0])
    assert [each.peer_id for each in met((stream, accepted), beside, KEYED)] == [SERVER, CLIENT]
    stream.close()
    accepted.close()


def test_a_host_name_is_looked_up(listening: socket.socket) -> None:
    if listening.family == socket.AF_INET:
        connect_tcp("localhost", listening.getsockname()[1], soon()).close()


def test_a_connection_sends_at_once_and_notices_a_vanished_host(listening: socket.socket) -> None:
    stream = connect_tcp(*place(listening), soon())
    with socket.socket(fileno=os.dup(stream.fileno())) as sock:
        options = (socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert all(sock.getsockopt(*option) for option in options)
    stream.close()


def test_a_connection_is_not_inherited(listening: socket.socket) -> None:
    stream = connect_tcp(*place(listening), soon())
    assert not os.get_inheritable(stream.fileno())
    stream.close()


def test_a_port_where_nobody_listens_has_no_agent(listening: socket.socket) -> None:
    host, port = place(listening)
    listening.close()
    with pytest.raises(PeerLost, match=str(port)) as caught:
        connect_tcp(host, port, soon())
    assert caught.value.absent


def test_a_name_that_leads_nowhere_says_so() -> None:
    with pytest.raises(PeerLost, match="cannot be looked up"):
        connect_tcp("nobody.invalid", 5555, soon())


def test_an_error_names_the_peer_as_the_caller_does(listening: socket.socket) -> None:
    stream = connect_tcp(*place(listening), soon(), "tcp://psu:5555")
    listening.accept()[0].close()
    with pytest.raises(PeerLost, match="psu"):
        stream.receive(soon())


@needs_unix
def test_an_agent_of_this_host_is_reached_over_its_unix_socket(beside: Callable[..., Future[Any]]) -> None:
    agent_id = os.urandom(16).hex()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(stream_address(agent_id))
        sock.listen()
        ends = connect_unix(agent_id, soon()), Stream(sock.accept()[0])
    assert [each.peer_id for each in met(ends, beside, KEYED)] == [SERVER, CLIENT]
    for each in ends:
        each.close()


@needs_unix
def test_an_agent_that_is_not_on_this_host_is_named() -> None:
    with pytest.raises(PeerLost, match=OTHER) as caught:
        connect_unix(OTHER, soon())
    assert caught.value.absent
