"""Connection: a socket that asks a REP endpoint, and what makes and reads its messages.

A call takes a connection out of its pool, sends and waits on it in the calling thread, and gives it back; so
replies cannot be stolen, and a timeout costs that one connection, never the peer's other calls::

    state      event                                 next
    idle       exchange                              sending
    sending    written whole                         waiting
    sending    broken, late                          closed: nothing has run
    waiting    a note that the call runs             waiting
    waiting    the reply, or a refusal               idle
    waiting    broken, late, aborted, interrupted    closed: the call may run, or have run
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic, time_ns
from typing import Any, cast

from ...protocol.contents import PS, SEQUENCES, control, is_word, ps_message, read_ps_message, read_refusal
from ...protocol.errors import CallTimeout, ProtocolError, RemoteProtocolError, SignatureError, VersionError
from ...protocol.frames import PZC00, PZC01, Buffer, Kind
from ...protocol.link_messages import LinkMessage
from ...protocol.message import Message
from ...protocol.session import ARRAYS, REFERENCES, Party, Session
from ...transport.counters import Counters
from ...transport.dealer_socket import DealerSocket
from ...transport.exchange import Exchange, Sealing, UnixExchange, refuse
from ...transport.laned import exchange_of
from ...transport.link_stream import LinkStream
from ...transport.peer import Peer
from ...transport.timers import LATE
from ...transport.wire import Protocol as Wire

_PLAIN = frozenset({"placed", "mailbox", "collect", "discard"})
"""Words that go as json, which every receiver accepts."""

_OURS = frozenset({"timeout", "detached"})

Answer = tuple[Any, Message, str]
"""Decoded content of a reply, the message that it came in, and its action when it is one to a proxy."""

RUNNING = "running"
"""Action of a note: the call runs, or waits for what does."""


class Stranger:
    """Messages to whoever has no session: a peer that was not met yet, or an original Pizco.

    Args:
        protocol: formats and checks.
        own: agent id, or REP endpoint for an original.
        dialect: of the messages.
    """

    def __init__(self, protocol: Wire, own: str, dialect: str) -> None:
        self._protocol = protocol
        self._own = own
        self._dialect = dialect
        json = dialect == PZC01 and "json" in protocol.codec.accept_serializers
        self._serializer = "json" if json else None
        self._sequence = ARRAYS | REFERENCES if dialect == PZC01 else 0

    def seal(
        self,
        content: object,
        ms: int,
        counter: int,
        *,
        answers: Message | None = None,
        serializer: str | None = None,
        packed: tuple[str, Buffer] | None = None,
    ) -> list[Buffer]:
        """See `Sealing`; the id has a time and a counter of its own.

        What only our servers know of a call stays here: an original would take it for an argument.
        """
        call = read_ps_message(content) if self._dialect == PZC00 else None
        if call is not None and isinstance(call[1], dict):
            told = cast("dict[str, Any]", call[1])
            known = {key: value for key, value in told.items() if key not in _OURS}
            content = ps_message(call[0], known)
        return self._protocol.encode(
            self._own, "", content, dialect=self._dialect, serializer=self._serializer,
            sequence=self._sequence,
        )  # fmt: skip

    def open(self, frames: list[Buffer]) -> Message:
        """See `Sealing`."""
        receiver = self._own if self._dialect == PZC01 else ""
        message = self._protocol.open(frames, Kind.REPLY, receiver=receiver, judge_time=False)
        if message.facts.dialect != self._dialect:
            raise VersionError(f"a reply in {message.facts.dialect}")
        message.facts = replace(message.facts, trusted=False)  # whoever it is has not been met
        return message


class Sealed:
    """What makes the requests to one peer and reads its replies.

    Args:
        peer: at the other end.
        protocol: of the agent.
        own: agent id, or REP endpoint for an original.
        counters: where oddities are counted.
        binding: what stands behind both agent ids under the signatures.
        serializer: of requests; None for the codec's.
    """

    __slots__ = (
        "_counters", "_own", "_protocol", "_serializer", "_session", "binding", "count", "original",
        "peer",
    )  # fmt: skip

    def __init__(
        self, peer: Peer, protocol: Wire, own: str, counters: Counters, binding: str = "",
        serializer: str | None = None,
    ) -> None:  # fmt: skip
        self._protocol, self._own, self._counters = protocol, own, counters
        self._serializer = serializer
        self.binding = binding
        self.count = protocol.counter()
        self.turn_to(peer)

    def turn_to(self, peer: Peer) -> object:
        """Whoever is at the other end is that one: it was met only now, or is there anew."""
        self.peer = peer
        self.original = peer.dialect == PZC00
        self._session: Sealing
        if self.original or not peer.agent_id:
            self._session = Stranger(self._protocol, self._own, peer.dialect)
        else:
            self._session = self._session_with(peer)

    def _session_with(self, peer: Peer) -> Session:
        codec, own, theirs = self._protocol.codec, None, None
        if codec.keyring is not None:
            own, theirs = codec.keyring.calling, codec.keyring.find(peer.key_id)
        return Session(
            codec, Party(self._own, self._protocol.epoch, own), Party(peer.agent_id, peer.epoch, theirs),
            asks=True, binding=self.binding,
            serializer=self._serializer, abilities=ARRAYS | REFERENCES,
        )  # fmt: skip

    def seal(self, content: object) -> list[Buffer]:
        """Frames of a request, whose id is the fourth.

        Raises:
            SerializeError, LocalProtocolError: when it cannot be sent.
        """
        return self._session.seal(
            content, time_ns() // 1_000_000, self.count(), serializer=serializer_of(content)
        )

    def open(self, frames: list[Buffer]) -> Message:
        """A verified reply.

        Raises:
            SignatureError, RemoteProtocolError: for one that cannot be taken.
        """
        try:
            return self._session.open(frames)
        except ProtocolError as error:
            return self._read_other(frames, error)

    def over(self, stream: LinkStream) -> UnixExchange:
        """The exchange over a connection.

        Raises:
            VersionError: with an original, which has no session.
        """
        if not isinstance(self._session, Session):
            raise VersionError(f"{self.peer.dialect} is not spoken over a Unix socket")
        return exchange_of(stream, self._session, self.count, self._read_other)

    def _read_other(self, frames: list[Buffer], error: ProtocolError) -> Message:
        """A message that the session does not take: only a refusal may come from another agent or key."""
        endpoint, codec = self.peer.endpoint, self._protocol.codec
        dialect = bytes(frames[0][:6]) if frames else b""
        if dialect == b"PZC00+" and not self.original and PZC00 not in codec.accept:
            raise VersionError(f"{endpoint} answered in PZC00") from error
        try:
            receiver = "" if self.original else self._own + self.binding
            message = self._protocol.open(frames, Kind.REPLY, receiver=receiver, judge_time=False)
        except SignatureError as exc:
            self._counters.add("replies_refused")
            raise SignatureError(f"signature refused by {endpoint}: keys differ ({exc})") from exc
        except ProtocolError as exc:
            self._counters.add("replies_refused")
            if isinstance(exc, VersionError) and dialect == b"PZC00+":
                raise VersionError(f"{endpoint} answered in PZC00") from exc
            raise RemoteProtocolError(f"reply of {endpoint} cannot be read: {exc}") from exc
        if message.facts.dialect == PZC00 and not self.original:
            raise VersionError(f"{endpoint} answered in PZC00")
        if message.serializer != "json" or read_refusal(message.decode()) is None:
            self._counters.add("replies_refused")
            raise SignatureError(f"the reply of {endpoint} is by another agent or with another key")
        return message


class RepConnection(Sealed):
    """A DEALER socket that asks one peer's REP endpoint; one user at a time. Made by a pool.

    Args:
        dealer: carries the frames; taken over.
        peer: at the other end.
        protocol: of the agent.
        own: agent id, or REP endpoint for an original.
        counters: where oddities are counted.

    Attributes:
        idle: whether the peer is there, and has sent nothing that was not asked for.
        note: what was told last of the call that runs.
        unread: what is held until its peer has read what was posted.
        used: it was given back since it was last found idle.
        since: when it was found idle, in monotonic seconds.
    """

    __slots__ = ("_dealer", "_exchange", "idle", "note", "since", "unread", "used")

    kind = "rep"

    def __init__(
        self, dealer: DealerSocket, peer: Peer, protocol: Wire, own: str, counters: Counters
    ) -> None:
        self._dealer = dealer
        self.idle = dealer.idle
        self.used, self.since = True, 0.0
        self.note: dict[str, Any] | None = None
        self.unread: dict[int, object] = {}
        super().__init__(peer, protocol, own, counters)

    def turn_to(self, peer: Peer) -> bool:
        """See `Sealed.turn_to`."""
        super().turn_to(peer)
        self._exchange = Exchange(self._dealer, self._session, self.count, self._read_other)
        return True

    @property
    def msgid(self) -> str:
        """Of the last request that was asked; empty when it got none. Any thread."""
        return self._exchange.asked

    @property
    def sent(self) -> bool:
        """The last request went out whole."""
        return self._exchange.sent

    def post(self, content: object, deadline: float, keeps: Sequence[object] = ()) -> None:
        """Send a request that wants no answer, and hold what it keeps; errors as `exchange`."""
        exchange = self._exchange
        exchange.asked, exchange.sent = "", False
        exchange.send(content, deadline, serializer=serializer_of(content))
        exchange.sent = True
        self.unread.update((id(each), each) for each in keeps)

    def exchange(self, content: object, deadline: float, abort: threading.Event) -> Answer:
        """The reply to a request.

        Args:
            content: of the request.
            deadline: in monotonic seconds.
            abort: ends the wait.

        Raises:
            CallTimeout, PeerLost, AgentClosed: as `Transport`; `sent` tells whether it may have run.
            SerializeError, LocalProtocolError: when it cannot be sent.
            SignatureError, RemoteProtocolError: for a reply that cannot be taken.
        """
        exchange, self.note = self._exchange, None
        message, late = exchange.ask(content, deadline, abort, serializer_of(content)), False
        while True:
            if message.msgid == exchange.asked or (self.original and is_word(message.decode(), "")):
                reply = message.decode(writable=True)
                if not is_running(reply):
                    self.unread.clear()
                    return reply, message, action_of(reply)
                self.note = reply[2]
            else:
                self._counters.add("replies_unexpected")
            if monotonic() >= deadline:  # which a peer that says something all the time would stretch
                if late:
                    raise CallTimeout(f"{self.peer.endpoint} says something else all the time")
                late, deadline = True, monotonic() + LATE
            message = exchange.receive(deadline, abort)

    def close(self) -> None:
        """End it, from the thread that uses it, or from any when nobody does."""
        self._exchange.close()
        self._exchange.otherwise = refuse  # else the two hold each other


def action_of(reply: Any) -> str:
    """Action of a reply to a proxy; empty for any other content."""
    if reply.__class__ in SEQUENCES and len(reply) == 3 and reply[1].__class__ is str:
        return reply[1]
    return ""


def serializer_of(content: object) -> str | None:
    """That of a request; None for the session's own."""
    if content.__class__ is tuple:
        return None
    if content.__class__ is dict:
        return "json" if control(content) in _PLAIN else None
    return "link" if isinstance(content, LinkMessage) else None


def is_running(reply: Any) -> bool:
    """True for a content that only tells that the call runs."""
    if reply.__class__ not in SEQUENCES or len(reply) != 3 or reply[2].__class__ is not dict:
        return False
    return is_word(reply[1], RUNNING) and is_word(reply[0], PS)
