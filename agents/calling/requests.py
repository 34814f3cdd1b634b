"""Requester: what an agent asks of others, from the caller's thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial

import zmq

from ...protocol import limits
from ...protocol.codec import Envelope
from ...protocol.consignments import Consignment
from ...protocol.errors import (
    AgentClosed,
    CallTimeout,
    PeerLost,
    ProtocolError,
    RemoteProtocolError,
    SignatureError,
    StaleMessage,
    VersionError,
)
from ...protocol.frames import PZC00, PZC01, Buffer, Kind
from ...protocol.session import AskingSession
from ..counters import Counters
from ..messages import control, is_word, read_ps_message
from ..wire import Protocol, now_ms
from .broken import LineBroke, Lost, Moved, NotSent, expired, told
from .endings import Endings
from .lines import Line, Lines, abilities, arriving, asking_session, capabilities
from .peers import OFFSET_WORTH_TELLING_MS, Peer, Peers, hello, read_hello, read_info_00, unmet
from .quickway import QuickWay
from .reply import Reply, accepted, decoded
from .retries import Repeating

logger = logging.getLogger("pzc.requests")

_SOON = 20.0
"""Seconds within which no request can have become stale on its way; less than the freshness window."""

_SUBSCRIBING = frozenset({"placed", "link", "grant", "unlink", "kept", "mailbox", "collect", "discard"})


class Requester:
    """Sends requests and waits for their replies; safe from any thread.

    Args:
        context: of the agent's loop.
        protocol: formats and checks.
        agent_id: sender of PZC01 messages.
        rep_endpoint: sender of PZC00 messages.
        counters: where oddities are counted.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        protocol: Protocol,
        agent_id: str,
        rep_endpoint: str,
        counters: Counters,
    ) -> None:
        self._protocol = protocol
        self._agent_id = agent_id
        self._rep_endpoint = rep_endpoint
        self._counters = counters
        self.peers = Peers()
        self._sequence = capabilities(protocol)
        self.lines = Lines(context, partial(asking_session, protocol, agent_id))
        self.endings = Endings(self.lines.closed)
        self._repeating = Repeating(PeerLost, self.lines.closed)

    def request(
        self,
        endpoint: str,
        content: object,
        timeout: float,
        transport: str = "auto",
        idempotent: bool = False,
    ) -> Reply:
        """Send content, return the reply. It is sent again only when the first one surely did not run.

        Args:
            endpoint: of the peer's REP.
            content: anything the serializer can express.
            timeout: seconds for everything, the handshake included.
            transport: ``auto``, ``unix`` or ``tcp``.
            idempotent: send it again, with back-off, when the peer is lost.

        Raises:
            CallTimeout, PeerLost, SignatureError, ProtocolError, SerializeError: see the tree.
            PzcError: whatever the peer refused with.
        """
        started = time.monotonic()
        deadline = started + timeout
        try:
            if not idempotent:
                return self._request(endpoint, content, deadline, transport, started, recover=True)
            once = partial(self._request, endpoint, content, deadline, transport, started, recover=False)
            return self._repeating.call(once, timeout, partial(self.forget, endpoint))
        except (CallTimeout, PeerLost, ProtocolError) as exc:
            self.forget(endpoint)
            if isinstance(exc, CallTimeout):
                raise expired(exc, endpoint, timeout) from exc
            if isinstance(exc, LineBroke):
                raise told(exc) from exc
            raise

    def _request(
        self, endpoint: str, content: object, deadline: float, transport: str, started: float, recover: bool
    ) -> Reply:
        peer = self.peer(endpoint, deadline)
        reply = self._exchange(peer, content, deadline, transport, recover)
        again = False
        while reply.refusal is not None and not (again and reply.sender == peer.agent_id):
            peer, again = self.after_refusal(peer, reply, started, deadline), True
            reply = self._exchange(peer, content, deadline, transport, recover)
        return accepted(reply)

    def send(self, endpoint: str, content: object, timeout: float, transport: str = "auto") -> None:
        """Send a request that says of itself that it wants no answer; errors as `request`.

        Over tcp somebody must have answered on the same line before: a socket takes messages for nobody.
        """
        started = time.monotonic()
        try:
            self._send(endpoint, content, started, started + timeout, transport)
        except (CallTimeout, PeerLost, ProtocolError) as exc:
            self.forget(endpoint)
            if isinstance(exc, LineBroke):  # of the ping
                raise PeerLost(str(exc)) from exc
            raise

    def _send(self, endpoint: str, content: object, started: float, deadline: float, transport: str) -> None:
        peer = self.peer(endpoint, deadline)
        line = self.lines.take(peer, transport, deadline)
        clean = False
        try:
            if line.kind == "tcp" and not line.proved:
                reply = self.read_reply(peer, self._talk(line, peer, "ping", deadline))
                if reply.refusal is not None:
                    peer = self.after_refusal(peer, reply, started, deadline)
            frames, _ = self.encode(peer, content, line)
            line.transport.send(frames, deadline)
            clean = True
        finally:
            (self.lines.give if clean else self.lines.discard)(line)

    def forget(self, endpoint: str) -> None:
        """Shake hands anew, over new sockets, before the next request."""
        self.peers.forget(endpoint)
        self.lines.forget(endpoint)

    def after_refusal(self, peer: Peer, reply: Reply, started: float, deadline: float) -> Peer:
        """The peer to send a refused request to once more, after a fresh handshake.

        A refusal proves that nothing ran only if nobody on the way can have provoked it beside the
        execution: by sending a copy again, altered, late, or to another agent. So it must come from
        an agent that has replaced the one addressed, or be about the clock, and soon.

        Args:
            peer: whom the request was addressed to.
            reply: with the refusal.
            started: when the request was made, in monotonic seconds.
            deadline: of the handshake, in monotonic seconds.

        Raises:
            PzcError: the refusal, when the request must not be sent again.
        """
        replaced = isinstance(reply.refusal, SignatureError) and reply.sender != peer.agent_id
        stale = isinstance(reply.refusal, StaleMessage) and time.monotonic() - started < _SOON
        if peer.dialect == PZC01 and (replaced or stale):
            self.peers.forget(peer.endpoint)
            fresh = self.peer(peer.endpoint, deadline)
            if fresh.agent_id == reply.sender:
                return fresh
            if fresh.agent_id != peer.agent_id:
                raise PeerLost(
                    f"{peer.endpoint} was restarted during the call, which may or may not have run"
                )
        accepted(reply)
        return peer

    def peer(self, endpoint: str, deadline: float) -> Peer:
        """The peer behind an endpoint, after a handshake if need be; errors as `request`."""
        if (peer := self.peers.get(endpoint)) is not None:
            return peer
        with self.peers.meeting(endpoint, deadline) as met:
            try:
                peer = met or self._meet(endpoint, deadline)
            except LineBroke as exc:  # the handshake's id would help nobody
                raise PeerLost(str(exc)) from exc
            self.peers.learn(peer)
            return peer

    def _meet(self, endpoint: str, deadline: float) -> Peer:
        if self._protocol.codec.dialect == PZC00:
            return self._meet_00(endpoint, deadline)
        try:
            peer = self._hello(endpoint, deadline, "")
        except VersionError:
            return self._meet_00(endpoint, deadline)
        if abs(peer.offset_ms) > OFFSET_WORTH_TELLING_MS:
            logger.warning("clock of %s is %+.1f s off this machine's", endpoint, peer.offset_ms / 1000)
            return self._hello(endpoint, deadline, str(peer.details.get("nonce", "")))
        return peer

    def _hello(self, endpoint: str, deadline: float, answer: str) -> Peer:
        content, sent_ms = hello(answer), now_ms()
        reply = accepted(self._exchange(unmet(endpoint, PZC01), content, deadline))
        return read_hello(endpoint, content, reply.content, sent_ms, reply.sender, reply.key_id)

    def _meet_00(self, endpoint: str, deadline: float) -> Peer:
        self.peers.check_original(endpoint, self._protocol.codec.accept)
        return read_info_00(endpoint, self._exchange(unmet(endpoint, PZC00), "info", deadline).content)

    def _exchange(
        self, peer: Peer, content: object, deadline: float, transport: str = "tcp", recover: bool = False
    ) -> Reply:
        line = self.lines.take(peer, transport, deadline)
        try:
            return self._over(line, peer, content, deadline)
        except NotSent:
            if transport != "auto" or line.kind == "tcp":
                raise
            return self._exchange(peer, content, deadline, "tcp", recover)
        except Lost as exc:
            if not recover or isinstance(exc, Moved) or peer.dialect == PZC00 or not peer.agent_id:
                raise
            return self._recover(peer, exc, deadline)

    def quick_way(self, peer: Peer, kind: str, closed: threading.Event) -> QuickWay:
        """The shortest way to a peer over lines of a kind, for what can take it, until it is closed."""
        ways = (self._read_other, self._line_failed, self._refused)
        return QuickWay(self.lines, kind, self._protocol, peer, *ways, closed)

    def _read_other(self, peer: Peer, line: Line, frames: list[Buffer], msgid: Buffer) -> Reply | None:
        """A reply that a session could not read; None when it answers something else."""
        envelope = self.open_reply(peer, frames, line.binding, line.transport.referred)
        if self._answers(envelope, peer, str(msgid, "ascii")):
            return self.read_reply(peer, envelope)
        self._counters.add("replies_unexpected")
        return None

    def _refused(self, peer: Peer, reply: Reply, content: object, started: float, deadline: float) -> Reply:
        """What becomes of a call that was refused, perhaps by an agent that has replaced its peer."""
        fresh = self.after_refusal(peer, reply, started, deadline)
        return self.request(fresh.endpoint, content, max(0.0, deadline - time.monotonic()), "tcp")

    def _line_failed(self, peer: Peer, error: BaseException, msgid: Buffer, deadline: float) -> Reply | None:
        """What becomes of a call whose line failed when the request was on it; None: the error is raised."""
        call_id = str(msgid, "ascii")
        if isinstance(error, CallTimeout):
            self.forget(peer.endpoint)
            error.call_id = call_id
        if not isinstance(error, PeerLost):
            return None
        try:
            return accepted(self._recover(peer, Lost(str(error), call_id), deadline))
        except LineBroke as exc:
            self.forget(peer.endpoint)
            raise told(exc) from error

    def _over(self, line: Line, peer: Peer, content: object, deadline: float) -> Reply:
        """One request and its reply over a line, which goes back into the pool."""
        clean = False
        try:
            envelope = self._talk(line, peer, content, deadline)
            clean = True
        finally:
            (self.lines.give if clean else self.lines.discard)(line)
        return self.read_reply(peer, envelope)

    def _talk(self, line: Line, peer: Peer, content: object, deadline: float) -> Envelope:
        msgid, sent, ending = "", False, self.endings.of(peer.endpoint)
        try:
            frames, msgid = self.encode(peer, content, line)
            line.transport.send(frames, deadline)
            sent = True
            while True:
                frames = line.transport.receive(deadline, ending)
                envelope = self.open_reply(peer, frames, line.binding, line.transport.referred)
                if self._answers(envelope, peer, msgid):
                    return envelope
                self._counters.add("replies_unexpected")
        except CallTimeout as exc:
            exc.call_id = msgid
            raise
        except PeerLost as exc:
            raise (Lost if sent else NotSent)(str(exc), msgid) from exc
        except AgentClosed as exc:
            if not ending.abandoned:
                raise
            raise Moved(
                f"{peer.endpoint} is not where its agent is any more; the call may have run", msgid
            ) from exc

    def _recover(self, peer: Peer, lost: Lost, deadline: float) -> Reply:
        """The reply of a call whose line broke: its peer may live, and keep the result."""
        ask = {"pzc": "future", "id": lost.call_id}
        until, ending = (
            min(deadline, time.monotonic() + limits.current.call_recovery),
            self.endings.of(peer.endpoint),
        )
        while time.monotonic() < until and not ending.abandoned:
            try:
                reply = self._exchange(peer, ask, until, "tcp")
            except (PeerLost, CallTimeout):
                continue
            if reply.refusal is not None:
                break
            if (message := read_ps_message(reply.content)) is None or message[0] != "pending":
                self._counters.add("calls_recovered")
                return reply
            until = deadline  # it runs there
        try:
            raise lost
        finally:
            del lost  # its traceback holds this frame

    def _answers(self, envelope: Envelope, peer: Peer, msgid: str) -> bool:
        # An original answers what it cannot read with an empty reply of any id.
        original = envelope.dialect == PZC00
        return envelope.msgid == msgid or (original and is_word(self._protocol.content(envelope), ""))

    def encode(self, peer: Peer, content: object, line: Line | None = None) -> tuple[list[Buffer], str]:
        """Frames of a request to a peer over a line, and its message id; to a stranger, the handshake's.

        The handshake and what subscriptions need are json, which every receiver accepts.
        """
        if peer.dialect == PZC00:
            frames = self._protocol.encode(self._rep_endpoint, "", content, dialect=PZC00)
        else:
            plain = not peer.agent_id or control(content) in _SUBSCRIBING
            safe = plain and "json" in self._protocol.codec.accept_serializers
            frames = self._protocol.encode(
                self._agent_id,
                "",
                content,
                receiver=peer.agent_id if line is None else peer.agent_id + line.binding,
                dialect=PZC01,
                serializer="json" if safe else None,
                sequence=self._sequence,
                **(abilities(peer) if line is None else line.options),
            )
        return frames, bytes(frames[3]).decode()

    def arriving(self, peer: Peer, binding: str, msgid: str) -> Consignment | None:
        """As `lines.arriving`, for this agent."""
        return arriving(self._protocol, self._agent_id, peer, binding, msgid)

    def session(self, peer: Peer, binding: str) -> AskingSession | None:
        """As `lines.asking_session`, for control words of this agent."""
        return asking_session(self._protocol, self._agent_id, peer, binding, words=True)

    def open_reply(
        self, peer: Peer, frames: Sequence[Buffer], binding: str = "", by_reference: bool = False
    ) -> Envelope:
        """Verify a reply.

        Raises:
            VersionError: when a PZC01 request was answered in PZC00 (signed, where there is a key).
            SignatureError: naming the peer, when its keys differ from ours.
        """
        try:
            envelope = self._protocol.open(
                frames,
                Kind.REPLY,
                receiver=self._agent_id + binding,
                judge_time=False,
                by_reference=by_reference,
            )
        except SignatureError as exc:
            self._counters.add("replies_refused")
            raise SignatureError(f"signature refused by {peer.endpoint}: keys differ ({exc})") from exc
        except ProtocolError as exc:
            self._counters.add("replies_refused")
            if isinstance(exc, VersionError) and frames[0][:6] == b"PZC00+":
                raise VersionError(f"{peer.endpoint} answered in PZC00") from exc
            raise RemoteProtocolError(f"reply of {peer.endpoint} cannot be read: {exc}") from exc
        if envelope.dialect == PZC00 and peer.dialect == PZC01:
            raise VersionError(f"{peer.endpoint} answered in PZC00")
        return envelope

    def read_reply(self, peer: Peer, envelope: Envelope) -> Reply:
        """As `reply.decoded`, counted here."""
        return decoded(self._protocol, self._counters, peer, envelope)
