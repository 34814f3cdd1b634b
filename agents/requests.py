"""Requester: what an agent asks of others, from the caller's thread."""

from __future__ import annotations

import logging
import time
from typing import Any, NamedTuple

import zmq

from ..protocol.codec import Envelope
from ..protocol.errors import (
    CallTimeout,
    PeerLost,
    ProtocolError,
    PzcError,
    RemoteProtocolError,
    SignatureError,
    StaleMessage,
    VersionError,
)
from ..protocol.frames import PZC00, PZC01, Buffer, Kind
from .channels import Channels
from .counters import Counters
from .messages import control, is_word, read_refusal
from .peers import OFFSET_WORTH_TELLING_MS, Peer, Peers, hello, read_hello, read_info_00
from .wire import Protocol, now_ms

logger = logging.getLogger("pzc.requests")

_SOON = 20.0
"""Seconds within which no request can have become stale on its way; less than the freshness window."""


class Reply(NamedTuple):
    """A decoded reply, how its parts may be decoded, who sent it, and what it refused with."""

    content: Any
    serializer: str
    trusted: bool
    sender: str
    key_id: str = ""
    refusal: PzcError | None = None


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
        self.channels = Channels(context)

    def request(self, endpoint: str, content: object, timeout: float) -> Reply:
        """Send content, return the reply. It is sent again only when the first one surely did not run.

        Args:
            endpoint: of the peer's REP.
            content: anything the serializer can express.
            timeout: seconds for everything, the handshake included.

        Raises:
            CallTimeout, PeerLost, SignatureError, ProtocolError, SerializeError: see the tree.
            PzcError: whatever the peer refused with.
        """
        started = time.monotonic()
        deadline = started + timeout
        try:
            peer = self.peer(endpoint, deadline)
            reply = self._exchange(peer, content, deadline)
            if reply.refusal is not None:
                peer = self.after_refusal(peer, reply, started, deadline)
                reply = accepted(self._exchange(peer, content, deadline))
            return reply
        except CallTimeout as exc:
            self.forget(endpoint)
            text = f"no reply from {endpoint} within {timeout:g} s; the call may or may not have run"
            raise CallTimeout(text) from exc
        except (PeerLost, ProtocolError):
            self.forget(endpoint)
            raise

    def forget(self, endpoint: str) -> None:
        """Shake hands anew, over new sockets, before the next request."""
        self.peers.forget(endpoint)
        self.channels.forget(endpoint)

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
        accepted(reply)
        return peer

    def peer(self, endpoint: str, deadline: float) -> Peer:
        """The peer behind an endpoint, after a handshake if need be; errors as `request`."""
        peer = self.peers.get(endpoint)
        if peer is None:
            peer = self._meet(endpoint, deadline)
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
        content = hello(answer)
        stranger = Peer(endpoint, PZC01, "", 0, "", "", 0, {})
        sent_ms = now_ms()
        reply = accepted(self._exchange(stranger, content, deadline))
        return read_hello(endpoint, content, reply.content, sent_ms, reply.sender, reply.key_id)

    def _meet_00(self, endpoint: str, deadline: float) -> Peer:
        if PZC00 not in self._protocol.codec.accept:
            raise VersionError(f"{endpoint} speaks PZC00 only, which this side does not accept (PZC_ACCEPT)")
        stranger = Peer(endpoint, PZC00, endpoint, 0, "", "", 0, {})
        return read_info_00(endpoint, self._exchange(stranger, "info", deadline).content)

    def _exchange(self, peer: Peer, content: object, deadline: float) -> Reply:
        frames, msgid = self.encode(peer, content)
        channel = self.channels.take(peer.endpoint)
        clean = False
        try:
            channel.send(frames)
            while True:
                envelope = self.open_reply(peer, channel.receive(deadline, self.channels.closed))
                if self._answers(envelope, peer, msgid):
                    break
                self._counters.add("replies_unexpected")
            clean = True
        finally:
            (self.channels.give if clean else self.channels.discard)(channel)
        return self.read_reply(peer, envelope)

    def _answers(self, envelope: Envelope, peer: Peer, msgid: str) -> bool:
        if envelope.dialect == PZC00:
            # An original answers what it cannot read with an empty reply of any id.
            return envelope.msgid == msgid or is_word(self._protocol.content(envelope), "")
        return envelope.msgid == msgid

    def encode(self, peer: Peer, content: object) -> tuple[list[Buffer], str]:
        """Frames of a request to a peer, and its message id; to a stranger, the handshake's.

        The handshake and the start of a subscription are json, which every receiver accepts.
        """
        if peer.dialect == PZC00:
            frames = self._protocol.encode(self._rep_endpoint, "", content, dialect=PZC00)
        else:
            plain = not peer.agent_id or control(content) == "placed"
            safe = plain and "json" in self._protocol.codec.accept_serializers
            frames = self._protocol.encode(
                self._agent_id,
                "",
                content,
                receiver=peer.agent_id,
                dialect=PZC01,
                serializer="json" if safe else None,
            )
        return frames, bytes(frames[3]).decode()

    def open_reply(self, peer: Peer, frames: list[bytes]) -> Envelope:
        """Verify a reply.

        Raises:
            VersionError: when a PZC01 request was answered in PZC00.
            SignatureError: naming the peer, when its keys differ from ours.
        """
        if peer.dialect == PZC01 and frames and frames[0][:6] == b"PZC00+":
            raise VersionError(f"{peer.endpoint} answered in PZC00")
        try:
            return self._protocol.open(frames, Kind.REPLY, receiver=self._agent_id, judge_time=False)
        except SignatureError as exc:
            self._counters.add("replies_refused")
            raise SignatureError(f"signature refused by {peer.endpoint}: keys differ ({exc})") from exc
        except ProtocolError as exc:
            self._counters.add("replies_refused")
            raise RemoteProtocolError(f"reply of {peer.endpoint} cannot be read: {exc}") from exc

    def read_reply(self, peer: Peer, envelope: Envelope) -> Reply:
        """Decode a verified reply. Only a refusal may come from another agent or key than the peer's.

        Raises:
            SignatureError: when the holder of another key answered in the peer's place.
            DecodeError, SerializerRefused: when the content cannot be decoded.
        """
        content = self._protocol.content(envelope)
        refusal = read_refusal(content) if envelope.dialect == PZC01 else None
        met = peer.dialect == PZC01 and bool(peer.agent_id)
        if met and refusal is None and (envelope.sender, envelope.key_id) != (peer.agent_id, peer.key_id):
            self._counters.add("replies_refused")
            raise SignatureError(f"the reply of {peer.endpoint} is by another agent or with another key")
        return Reply(content, envelope.serializer, envelope.signed, envelope.sender, envelope.key_id, refusal)


def accepted(reply: Reply) -> Reply:
    """The reply, when it is no refusal.

    Raises:
        PzcError: the refusal.
    """
    if reply.refusal is not None:
        raise reply.refusal
    return reply
