"""Replies: a verified request, and the one answer that goes back, whatever carried the request.

The answer is in the request's dialect, serializer and suite. The sequence field of a PZC01 request
tells what its sender can read: `CAPABLE_ARRAYS`, a large array may come as ``buffers``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol import original, serializers
from ...protocol.codec import Envelope
from ...protocol.errors import ProtocolError, PzcError, Refused, RemoteProtocolError, VersionError
from ...protocol.frames import MAX_HEADER, PZC00, PZC01, Buffer
from ...protocol.shown import printable
from ...protocol.signing import Suite
from ..counters import Counters
from ..messages import portable, raised, refusal
from ..wire import Protocol
from .calls import Caller

if TYPE_CHECKING:
    from .fastlane import Connection

logger = logging.getLogger("pzc.replies")

CAPABLE_ARRAYS = 1
"""Bit of a request's sequence: its sender reads ``buffers``."""

Frames = list[Buffer]

Transmit = Callable[[Frames], bool]
"""Sends frames back; False when there is no way any more. Any thread."""


@dataclass(slots=True, eq=False)
class Request:
    """One verified request and the way back to its sender.

    Attributes:
        envelope: verified, not decoded.
        suite: with which it was signed; the reply is, too.
        handshake: True when the receiver's agent id was not under the signature.
        receiver: what the reply is addressed to under its signature.
        address: where it came from, for people.
        transmit: sends frames back; False when there is no way any more. Any thread.
        allocate: where a large content is written; None for plain memory.
        proved: tells whether the transport proves a content.
        gone: True when its sender is known to have left; None when nobody can know.
        oneway: its sender wants no answer.
        reached: host of this machine by which an original came to a wildcard address; empty otherwise.
        connection: of this host, which may become a link; None when it came another way.
    """

    envelope: Envelope
    suite: int
    handshake: bool
    receiver: str
    address: str
    transmit: Transmit
    allocate: Callable[[int], bytearray | memoryview] | None = None
    proved: Callable[[Buffer], bool] | None = None
    gone: Callable[[], bool] | None = None
    oneway: bool = False
    reached: str = ""
    connection: Connection | None = None

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return Caller(self.envelope.sender, self.envelope.signer, self.address)


class Replies:
    """Formats the answers of one agent; safe from any thread.

    Args:
        protocol: formats and signs.
        agent_id: sender of PZC01 replies.
        counters: where everything is counted.
    """

    def __init__(self, protocol: Protocol, agent_id: str, counters: Counters) -> None:
        self._protocol = protocol
        self._agent_id = agent_id
        self._counters = counters
        self.rep_endpoint = ""
        """As originals are told it."""

    def reply(self, request: Request, content: object) -> bool:
        """Answer a request; False when its sender is known to be gone. Any thread."""
        return self.send(request, self.encode(request, content))

    def send(self, request: Request, frames: Frames) -> bool:
        """Send an encoded answer, unless none is wanted."""
        return request.oneway or request.transmit(frames)

    def encode(self, request: Request, content: object) -> Frames:
        """Frames of an answer; of the reason, when the content cannot be expressed."""
        try:
            return self._encode(request, content)
        except Exception as exc:
            self._counters.add("replies_not_serialisable")
            logger.warning("a reply cannot be expressed in %s: %s", request.envelope.serializer, exc)
            return self._encode_failure(request, exc)

    def _encode_failure(self, request: Request, error: Exception) -> Frames:
        try:
            return self._encode(request, raised(error))
        except Exception as exc:
            logger.warning("nor can the reason: %s", exc)
            envelope = request.envelope
            if envelope.dialect == PZC00:
                return self._empty()
            return self._refusal(RemoteProtocolError(str(exc)), envelope.msgid, request.receiver)

    def _empty(self) -> Frames:
        """The original's answer to what it cannot read; signed only where originals are served."""
        codec = self._protocol.codec
        keyring = codec.keyring if PZC00 in codec.accept else None
        body = serializers.encode(codec.serializer, "")
        return original.encode(
            keyring, self.rep_endpoint, "", codec.serializer, body, self._protocol.new_urn()
        )

    def _encode(self, request: Request, content: object) -> Frames:
        envelope = request.envelope
        if envelope.dialect == PZC00:
            return self._protocol.encode(
                self.rep_endpoint,
                envelope.topic,
                portable(content, PZC00, envelope.serializer),
                reply_to=envelope.msgid,
                dialect=PZC00,
                serializer=envelope.serializer,
            )
        return self._protocol.encode(
            self._agent_id,
            "",
            portable(content, PZC01, envelope.serializer),
            reply_to=envelope.msgid,
            receiver=request.receiver,
            dialect=PZC01,
            serializer=envelope.serializer,
            suite=Suite(request.suite) if request.suite else None,
            allocate=request.allocate,
            proved=request.proved,
            arrays=bool(envelope.sequence & CAPABLE_ARRAYS),
        )

    def refuse(self, request: Request, error: Exception) -> None:
        """Tell a verified sender why its request was not executed; any thread."""
        frames = self.encode_refusal(request, error)
        if request.oneway:
            logger.warning(
                "one-way request of %s was refused: %s",
                printable(request.envelope.sender),
                printable(str(error)),
            )
        self.send(request, frames)

    def count_refusal(self, error: Exception) -> None:
        """Count a request, or a call of a bundle, that was refused."""
        self._counters.add("requests_refused")
        self._counters.add(f"refused_{type(error).__name__}")

    def encode_refusal(self, request: Request, error: Exception) -> Frames:
        """Count a refusal, and its frames."""
        self.count_refusal(error)
        envelope = request.envelope
        if envelope.dialect == PZC00:
            return self.encode(request, raised(error) if isinstance(error, Refused) else "")
        return self._refusal(error, envelope.msgid, request.receiver)

    def refuse_frames(self, frames: list[Any], error: ProtocolError, binding: str = "") -> Frames:
        """Count what could not be verified, and the frames that tell its sender so.

        ``binding`` stands behind the agent ids under the signatures of the connection.
        """
        self._counters.add("requests_refused")
        self._counters.add(f"refused_{type(error).__name__}")
        logger.info("request refused: %s", error)
        accepted = self._protocol.codec.accept
        speaks_01 = bool(frames) and bytes(frames[0][:6]) == b"PZC01+" and PZC01 in accepted
        if isinstance(error, VersionError) or not speaks_01:
            return self._empty()
        sender = bytes(frames[0][:MAX_HEADER]).split(b"+", 2)[1].decode(errors="replace")
        known = len(frames) > 3 and len(frames[3]) < 128
        msgid = bytes(frames[3]).decode(errors="replace") if known else ""
        return self._refusal(error, msgid, sender + binding)

    def _refusal(self, error: Exception, msgid: str, receiver: str) -> Frames:
        return self._protocol.encode(
            self._agent_id,
            "",
            refusal(error),
            reply_to=msgid,
            receiver=receiver,
            dialect=PZC01,
            serializer="json",
        )


def guarded(replies: Replies, request: Request, handle: Callable[[Request], None]) -> None:
    """Handle a request; whatever that raises is told to its sender."""
    try:
        handle(request)
    except Exception as exc:
        if not isinstance(exc, PzcError):
            logger.exception(
                "request %s of %s failed", request.envelope.msgid, printable(request.envelope.sender)
            )
        replies.refuse(request, exc)
