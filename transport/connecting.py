"""Connecting: streams to agents, over the Unix socket of this host or over TCP, and the handshake on them.

`listen_unix` and `listen_tcp` make the sockets that accept, `connect_unix` and `connect_tcp` streams on which
nothing is proved yet. `handshake_with` at the end that connected, and `accept_handshake` at the other one,
exchange the messages of `protocol.handshake` and protect the stream with the keys that they settle. A
handshake that fails closes its stream.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket as sockets
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from ..protocol.errors import BindError, ConfigError, PeerLost, PzcError, RemoteProtocolError
from ..protocol.frames import PZC01, Buffer, format_header
from ..protocol.handshake import MAX_MESSAGE, Agreement, ClientHandshake, ServerHandshake, refusal
from ..protocol.ids import COUNTER_BITS, TIME_BITS, Stamp, is_own_urn
from ..protocol.signing import Suite
from ..shm import machine
from . import families
from .descriptors import require
from .endpoints import advice, check, split
from .inherited import LANE, mine
from .link_stream import peer_uid
from .stream import Stream

logger = logging.getLogger("pzc.stream")

FINISH = 2.0
"""Seconds in which a client must prove itself once the server has answered its hello."""

_BACKLOG = 512
_SERIALIZER = b"json"
_VANISHED_MS = 4000

_KEEPALIVE = tuple(
    (level, getattr(sockets, name), value)
    for level, name, value in (
        (sockets.IPPROTO_TCP, "TCP_NODELAY", 1),
        (sockets.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (sockets.IPPROTO_TCP, "TCP_KEEPIDLE" if hasattr(sockets, "TCP_KEEPIDLE") else "TCP_KEEPALIVE", 2),
        (sockets.IPPROTO_TCP, "TCP_KEEPINTVL", 1),
        (sockets.IPPROTO_TCP, "TCP_KEEPCNT", 2),
        (sockets.IPPROTO_TCP, "TCP_USER_TIMEOUT", _VANISHED_MS),
    )
    if hasattr(sockets, name)
)
"""No delay, and a vanished host is noticed after about 4 s, as `endpoints` has it for ZeroMQ."""


def stream_address(agent_id: str) -> str:
    """Abstract name of the Unix socket on which an agent accepts streams."""
    return f"{LANE.decode()}stream/{agent_id}"


def tuned(sock: sockets.socket) -> sockets.socket:
    """The same TCP socket, which sends without delay and notices a vanished host."""
    for level, option, value in _KEEPALIVE:
        sock.setsockopt(level, option, value)
    return sock


def connect_unix(agent_id: str, deadline: float, peer: str = "") -> Stream:
    """Connect to an agent of this host and user; ``peer`` names it in errors.

    Raises:
        PeerLost: no such agent accepts streams here, or another user's does.
    """
    place = peer or f"agent {agent_id} on this host"
    if not machine.LANE:
        raise PeerLost(f"{place} cannot be reached: this system has no Unix sockets that tell their user")
    with _opened(sockets.AF_UNIX, place) as sock:
        _connect(sock, stream_address(agent_id), deadline, place)
        if peer_uid(sock) != os.geteuid():
            raise PeerLost(f"{place} belongs to another user")
        return mine(partial(Stream, sock, place))


def connect_tcp(host: str, port: int, deadline: float, peer: str = "") -> Stream:
    """Connect to the stream endpoint of an agent.

    A host name is looked up here unless `families` knows where it leads; only that may outlast the deadline.

    Args:
        host: address or name; IPv6 in brackets or without.
        port: of the endpoint.
        deadline: monotonic seconds.
        peer: names the agent in errors; default the endpoint.

    Raises:
        PeerLost: none of its addresses accepts the connection in time; ``absent`` when all refuse it.
    """
    bare = host.strip("[]")
    endpoint = f"tcp://[{bare}]:{port}" if ":" in bare else f"tcp://{bare}:{port}"
    known = families.place(endpoint).removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        found = sockets.getaddrinfo(known, port, type=sockets.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        raise PeerLost(f"{endpoint} cannot be looked up: {exc}") from exc
    failures: list[PeerLost] = []
    for left, (family, _, _, _, address) in zip(range(len(found), 0, -1), found, strict=True):
        share = (deadline - time.monotonic()) / left  # a dead address leaves time for the next one
        try:
            return _connect_to(family, address, time.monotonic() + share, peer or endpoint)
        except PeerLost as exc:
            failures.append(exc)
    failures[-1].absent = all(each.absent for each in failures)
    raise failures[-1]


def listen_unix(agent_id: str) -> sockets.socket | None:
    """The Unix socket at which an agent accepts streams; None where that cannot be had, and TCP has to do."""
    if not machine.LANE:
        return None
    try:
        return mine(partial(_listening, sockets.AF_UNIX, stream_address(agent_id)))
    except OSError as exc:
        logger.info("no Unix socket for calls of this host: %s", exc)
        return None


def listen_tcp(endpoint: str) -> tuple[sockets.socket, str]:
    """A TCP socket at which an agent accepts streams, and its endpoint with the real port.

    Raises:
        ConfigError: when it is no TCP endpoint.
        BindError: naming the endpoint and the reason.
    """
    host, port = split(check(endpoint))
    if not host:
        raise ConfigError(f"stream={endpoint!r} cannot be used: expected tcp://ADDRESS:PORT")
    family = sockets.AF_INET6 if host.startswith("[") else sockets.AF_INET
    try:
        require(2)
        host = "0.0.0.0" if host == "*" else host.strip("[]")
        place = sockets.getaddrinfo(host, int(port.replace("*", "0")), family, sockets.SOCK_STREAM)[0][4]
        made = mine(partial(_listening, family, place))
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise BindError(f"cannot bind {endpoint}: {reason}{advice(exc.errno, endpoint)}") from exc
    host, port, *_ = made.getsockname()
    return made, f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _listening(family: int, place: Any) -> sockets.socket:
    made = sockets.socket(family, sockets.SOCK_STREAM)
    try:
        alone = getattr(sockets, "SO_EXCLUSIVEADDRUSE", sockets.SO_REUSEADDR)  # Windows shares a port else
        made.setsockopt(sockets.SOL_SOCKET, alone, 1)
        if family == sockets.AF_INET6:
            made.setsockopt(sockets.IPPROTO_IPV6, sockets.IPV6_V6ONLY, 0)  # as REP: [::] takes IPv4, too
        made.bind(place)
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def handshake_with(stream: Stream, handshake: ClientHandshake, deadline: float) -> Agreement:
    """Shake hands with the server at the other end, and protect the stream.

    Raises:
        SignatureError, VersionError, RemoteProtocolError: no agreement; trying again changes nothing.
        PeerLost, CallTimeout, AgentClosed: as of the stream; PeerLost also for another agent than the target.
    """
    with _handshaking(stream):
        header, second = _asked(stream, handshake, handshake.hello(), deadline)
        third, fourth, headers = handshake.answer(second), None, {header}
        if third is not None:
            header, fourth = _asked(stream, handshake, third, deadline)
            headers.add(header)
        agreement = handshake.complete(fourth)
        _check_headers(headers, agreement)
        return _protected(stream, agreement)


def accept_handshake(stream: Stream, handshake: ServerHandshake, deadline: float) -> Agreement:
    """Shake hands with the client at the other end, and protect the stream; a refusal is sent.

    Raises:
        SignatureError, VersionError, RemoteProtocolError: the client was refused.
        PeerLost, CallTimeout, AgentClosed: as of the stream; PeerLost also when another agent is wanted.
    """
    with _handshaking(stream):
        headers = set[bytes]()
        _reply(stream, handshake, headers, handshake.hello, deadline)
        if handshake.agreement is None:
            finish = min(deadline, time.monotonic() + FINISH)
            _reply(stream, handshake, headers, handshake.finish, finish)
        agreement = handshake.agreement
        assert agreement is not None
        return _protected(stream, agreement)


@contextlib.contextmanager
def _handshaking(stream: Stream) -> Generator[None]:
    """Bound what an unknown peer may send, and close the stream unless there is an agreement."""
    most, stream.max_content = stream.max_content, MAX_MESSAGE
    try:
        yield
    except BaseException:
        stream.close()
        raise
    stream.max_content = most


def _asked(
    stream: Stream, handshake: ClientHandshake, message: bytes, deadline: float
) -> tuple[bytes, Buffer]:
    """Header and content of the answer to a message."""
    stamp = Stamp(secrets.randbits(TIME_BITS), secrets.randbits(COUNTER_BITS), handshake.epoch)
    own, message_id = format_header(PZC01, handshake.agent_id, "", 0), stamp.urn_frame()
    stream.send(own, _SERIALIZER, message_id, message, deadline)
    header, echoed, content = _received(stream, deadline)
    if echoed != message_id:
        raise RemoteProtocolError("the answer is to another message than the one of the handshake")
    return header, content


def _reply(
    stream: Stream,
    handshake: ServerHandshake,
    headers: set[bytes],
    step: Callable[[Buffer], bytes],
    deadline: float,
) -> None:
    """Answer the next message by what a step of the handshake says, or refuse it and raise why."""
    header, message_id, content = _received(stream, deadline)
    headers.add(header)
    own = format_header(PZC01, handshake.agent_id, "", 0)
    try:
        answer = step(content)
        if handshake.agreement is not None:
            _check_headers(headers, handshake.agreement)
    except PzcError as exc:
        with contextlib.suppress(PzcError):
            stream.send(own, _SERIALIZER, message_id, refusal(exc), deadline)
        raise
    stream.send(own, _SERIALIZER, message_id, answer, deadline)


def _received(stream: Stream, deadline: float) -> tuple[bytes, bytes, Buffer]:
    """Header, message id and content of a message of the handshake."""
    header, serializer, message_id, content = stream.receive(deadline)
    if serializer != _SERIALIZER or is_own_urn(message_id) is None:
        raise RemoteProtocolError("the peer sent something else than a message of the handshake")
    return header, message_id, content


def _check_headers(headers: set[bytes], agreement: Agreement) -> None:
    if headers != {format_header(PZC01, agreement.peer_id, "", 0)}:
        raise RemoteProtocolError("a header of the handshake names another agent than its messages do")


def _protected(stream: Stream, agreement: Agreement) -> Agreement:
    if agreement.suite != Suite.NONE:
        stream.protect(agreement.suite, agreement.send_key, agreement.receive_key)
    return agreement


def _connect_to(family: int, address: Any, deadline: float, place: str) -> Stream:
    with _opened(family, place) as sock:  # closes it, unless the stream has taken it over
        _connect(sock, address, deadline, place)
        if sock.getsockname() == sock.getpeername():  # a free port of this host was dialled from itself
            raise _refused(place, "nobody listens there")
        return mine(partial(Stream, tuned(sock), place))


def _opened(family: int, place: str) -> sockets.socket:
    try:
        return mine(partial(sockets.socket, family, sockets.SOCK_STREAM))
    except OSError as exc:
        raise PeerLost(f"{place} cannot be connected to: {exc} (see ulimit -n)") from exc


def _connect(sock: sockets.socket, address: Any, deadline: float, place: str) -> None:
    sock.settimeout(max(0.001, deadline - time.monotonic()))
    try:
        sock.connect(address)
    except ConnectionRefusedError as exc:
        raise _refused(place, exc) from exc
    except OSError as exc:
        raise PeerLost(f"{place} cannot be connected to: {exc}") from exc


def _refused(place: str, reason: object) -> PeerLost:
    error = PeerLost(f"{place} cannot be connected to: {reason}")
    error.absent = True
    return error
