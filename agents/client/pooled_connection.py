"""Pooled connection: a stream to one peer, for one awaited call at a time; and how it is opened."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from time import monotonic, time_ns
from typing import Any

from ...protocol import serializers
from ...protocol.codec import too_large
from ...protocol.errors import CallTimeout, RemoteProtocolError
from ...protocol.frames import PZC01, Kind, format_header
from ...protocol.handshake import RANDOM_SIZE, Agreement, ClientHandshake, SessionOptions
from ...protocol.ids import URN, Stamp
from ...protocol.message import Facts, Message
from ...transport import families
from ...transport.connecting import connect_tcp, connect_unix, handshake_with
from ...transport.endpoints import is_direct, split
from ...transport.peer import Peer
from ...transport.stream import Stream
from ...transport.wire import Protocol
from .abort import AbortSignal
from .connection import Answer, action_of, serializer_of

_LOW = (1 << 30) - 1


class PooledConnection:
    """A stream after its handshake; one awaited call at a time.

    A call that fails in any way closes it, so a reply can only be that of the request before. Only what could
    not be packed, and so was not sent, leaves it usable.

    Args:
        stream: taken over.
        kind: ``unix`` or ``tcp``.
        peer: at the other end.
        agreement: what the handshake settled.
        protocol: of the agent.
        own: agent id.

    Attributes:
        sent: the last request went out whole.
        idle: whether the peer is there, and has sent nothing that was not asked for.
        close: ends it; any thread.
        note: what is known of the call that runs there, when it is late.
        unread: what is held until the peer has read what was posted.
        used: it was given back since it was last found idle.
        since: when it was found idle, in monotonic seconds.
    """

    __slots__ = (
        "_codec", "_count", "_facts", "_head", "_id", "_ids", "_names", "_serializer", "_stamp", "_stream",
        "close", "idle", "kind", "note", "peer", "sent", "since", "unread", "used",
    )  # fmt: skip

    def __init__(
        self, stream: Stream, kind: str, peer: Peer, agreement: Agreement, protocol: Protocol, own: str
    ) -> None:
        self._stream, self.kind, self.peer = stream, kind, peer
        self.idle, self.close = stream.idle, stream.close
        self._codec, self._ids = protocol.codec, protocol.ids
        self._count = protocol.counter()
        self._head = format_header(PZC01, own, "", 0)
        ring, key = self._codec.keyring, agreement.key
        self._serializer = self._codec.serializer_for(None if ring is None else ring.calling)
        self._names = dict[bytes, str]()
        trusted = key is not None and key.trusted
        self._facts = Facts.of(PZC01, Kind.REPLY, agreement.peer_id, "", key, trusted=trusted)
        self._stamp = Stamp(0, 0, agreement.peer_epoch)
        self._id, self.sent = b"", False
        self.note: dict[str, Any] | None = None
        self.unread: dict[int, object] = {}
        self.used, self.since = True, 0.0

    @property
    def msgid(self) -> str:
        """Of the last request; empty before it has one. Any thread."""
        return self._id.decode()

    def turn_to(self, peer: Peer) -> bool:
        """Whether it leads to a peer, which was met again."""
        same = peer.agent_id == self.peer.agent_id
        if same:
            self.peer = peer
        return same

    def post(self, content: object, deadline: float, keeps: Sequence[object] = ()) -> None:
        """Send a request.

        Args:
            content: of the request.
            deadline: in monotonic seconds.
            keeps: held until the peer has read it.

        Raises:
            SerializeError, LocalProtocolError: when it cannot be sent; the connection stays usable.
            PeerLost, CallTimeout, AgentClosed: as `Stream.send`.
        """
        self._id, self.sent, self.note = b"", False, None
        name = None if content.__class__ is tuple else serializer_of(content)
        name, body = serializers.pack(name or self._serializer, content)
        if len(body) > self._codec.max_content:
            raise too_large(len(body), self._codec.max_content)
        ms, count = time_ns() // 1_000_000, self._count()
        high, low = count >> 30, count & _LOW
        epoch = self._ids.epoch
        self._id = URN % (ms >> 16, ms & 0xFFFF, high, 0x8000 | low >> 16, low & 0xFFFF, epoch)
        self._stream.send(self._head, name.encode(), self._id, body, deadline)
        self.sent = True
        if keeps:
            self.unread.update((id(each), each) for each in keeps)

    def exchange(self, content: object, deadline: float, abort: AbortSignal) -> Answer:
        """The reply to a request.

        Args:
            content: of the request.
            deadline: in monotonic seconds.
            abort: ends the wait.

        Raises:
            SerializeError, LocalProtocolError: as `post`.
            PeerLost, CallTimeout, AgentClosed: as `Stream.receive`; `sent` tells whether it may have run.
            SignatureError, RemoteProtocolError: for a reply that cannot be taken.
        """
        self._id, self.sent, self.note = b"", False, None
        abort.waiting.add(self.close)
        try:
            if abort.aborted:  # before it could close this
                raise abort.error()
            self.post(content, deadline)
            receive = self._stream.receive
            _, name, answered, body = receive(deadline)
            while answered != self._id:
                if monotonic() >= deadline:  # which a peer that says something all the time would stretch
                    raise CallTimeout(f"{self.peer.endpoint} says something else all the time")
                _, name, answered, body = receive(deadline)
        finally:
            abort.waiting.discard(self.close)
        told = self._names.get(name) or self._name(name)
        message = Message(self._facts, self._id.decode(), self._stamp, told, body)
        answer = serializers.decode(told, body, trusted=self._facts.trusted, writable=True)
        if self.unread:
            self.unread.clear()
        return answer, message, action_of(answer)

    def _name(self, frame: bytes) -> str:
        """The name of a serializer that is accepted, which is remembered."""
        name = frame.decode("ascii", "replace")
        if not self._codec.opens(name):
            raise RemoteProtocolError(f"reply of {self.peer.endpoint}: {self._codec.refused(name)}")
        self._names[frame] = name
        return name


def has_stream(peer: Peer, kind: str) -> bool:
    """Whether a peer accepts streams of a kind, and was reached at its own port."""
    place = peer.details.get("stream_name") if kind == "unix" else stream_port(peer)
    return bool(peer.agent_id and place) and is_direct(peer)


def stream_port(peer: Peer) -> str:
    """TCP port at which a peer accepts streams; empty when it said none."""
    _, port = split(str(peer.details.get("stream_endpoint", "")))
    return port if port.isdecimal() and port.isascii() else ""


def open_stream(protocol: Protocol, own: str, peer: Peer, kind: str, deadline: float) -> PooledConnection:
    """A new stream to a peer, after its handshake.

    Args:
        protocol: of the agent.
        own: agent id.
        peer: to connect to.
        kind: ``unix`` or ``tcp``.
        deadline: in monotonic seconds.

    Raises:
        PeerLost, CallTimeout: when there is none.
        SignatureError, VersionError, RemoteProtocolError: when it was refused.
    """
    if kind == "unix":
        stream = connect_unix(peer.agent_id, deadline, peer.endpoint)
    else:
        host, _ = split(families.place(peer.endpoint))
        stream = connect_tcp(host.strip("[]"), int(stream_port(peer)), deadline, peer.endpoint)
    try:
        session = SessionOptions(secrets.token_hex(16), secrets.token_bytes(RANDOM_SIZE))
        handshake = ClientHandshake(protocol.codec, own, protocol.epoch, peer.agent_id, kind, session)
        return PooledConnection(
            stream, kind, peer, handshake_with(stream, handshake, deadline), protocol, own
        )
    except BaseException:
        stream.close()
        raise
