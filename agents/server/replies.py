"""Replies: the one answer that goes back for a request, whatever carried it.

The answer is in the request's dialect, serializer and suite. The sequence field of a PZC01 request tells what
its sender can read (`ARRAYS`, `REFERENCES`).
"""

from __future__ import annotations

import logging
import pickle
from time import time_ns
from typing import Any

from ...protocol import original, pickles, serializers
from ...protocol.buffers import Outside
from ...protocol.contents import portable, raised, refusal
from ...protocol.errors import (
    LocalProtocolError,
    ProtocolError,
    PzcError,
    Refused,
    RemoteProtocolError,
    RoleRefused,
    VersionError,
)
from ...protocol.frames import MAX_HEADER, PZC00, PZC01
from ...protocol.keyring import Key, Role
from ...protocol.message import Message
from ...protocol.session import ARRAYS
from ...protocol.shown import printable
from ...protocol.signing import Suite
from ...transport.counters import Counters
from ...transport.wire import Protocol
from .request import Asker, Frames, Packed, Request

logger = logging.getLogger("pzc.replies")

_PROTOCOL = pickle.HIGHEST_PROTOCOL
_GCM = Suite.AES256_GCM


def authorize(signer: Key | None, needed: Role) -> None:
    """Check the role of the key that signed a request; unsigned ones are not restricted.

    Raises:
        RoleRefused: naming the key, its role and the role that it takes.
    """
    if signer is not None and signer.role < needed:
        if signer.role < Role.OBSERVER:
            raise RoleRefused(
                f"key {signer.name} is this agent's own, which others hold to verify what it says: it lets "
                'nobody else ask. Sign with another key: call = "NAME" in a keyring, or PZC_KEY'
            )
        raise RoleRefused(
            f"key {signer.name} is {signer.role.name.lower()}; this needs {needed.name.lower()}"
        )


class Replies:
    """Formats the answers of one agent; safe from any thread.

    Args:
        protocol: formats and signs.
        agent_id: sender of PZC01 replies.
        counters: where everything is counted.
    """

    def __init__(self, protocol: Protocol, agent_id: str, counters: Counters) -> None:
        self._protocol = protocol
        self._codec = protocol.codec
        self._agent_id = agent_id
        self._counters = counters
        self._count = protocol.counter()
        self.rep_endpoint = ""
        """As originals are told it."""

    def reply(self, request: Request, content: object) -> bool:
        """Answer a request, unless none is wanted; False when its sender is known to be gone. Any thread."""
        return request.oneway or request.caller.carrier.send(request, self.encode(request, content))

    def send(self, request: Request, frames: Frames) -> bool:
        """Send frames that somebody else has made, unless none are wanted."""
        return request.oneway or request.transmit(frames)

    def encode(self, request: Request, content: Any) -> Packed:
        """An answer in the serializer of its request; the reason, when the content cannot be expressed."""
        message, most = request.message, self._codec.max_content
        try:
            returned = content.__class__ is tuple and len(content) == 3 and content[1].__class__ is str
            returned = returned and content[1] == "return"
            if returned and message.serializer == "pickle" and request.caller.session:
                outside = Outside()  # what most calls answer has no exception in it, and no large array
                body = pickles.dumps(content, _PROTOCOL, buffer_callback=outside)
                if not outside and len(body) <= most:
                    return "pickle", body
            return self._pack(request, content, portably=not returned)
        except Exception as exc:
            self._counters.add("replies_not_serialisable")
            logger.warning("a reply cannot be expressed in %s: %s", request.message.serializer, exc)
            return self._encode_failure(request, exc)

    def _pack(self, request: Request, content: Any, *, portably: bool = True) -> Packed:
        message, name, original = request.message, request.message.serializer, request.caller.session is None
        sealed = (self._codec.suite or message.suite) == _GCM
        allocate = None if sealed else request.caller.carrier.allocate
        if portably:
            content = portable(content, PZC00 if original else PZC01, name)
        if name == "pickle" and message.sequence & ARRAYS and not original:
            name, body = serializers.encode_arrays(content, allocate)
        else:
            body = serializers.encode(name, content, allocate)
        if len(body) > self._codec.max_content:
            raise LocalProtocolError(f"content has {len(body)} bytes, the limit is {self._codec.max_content}")
        return name, body

    def _encode_failure(self, request: Request, error: Exception) -> Packed:
        try:
            return self._pack(request, raised(error))
        except Exception as exc:
            logger.warning("nor can the reason: %s", exc)
            if request.caller.session is None:
                return self._codec.serializer, serializers.encode(self._codec.serializer, "")
            return "json", serializers.encode("json", refusal(RemoteProtocolError(str(exc))))

    def seal(self, caller: Asker, message: Message, packed: Packed) -> Frames:
        """Five frames of an answer to a caller's message."""
        session = caller.session
        if session is None:
            name, body = packed
            return original.encode(
                self._codec.keyring, self.rep_endpoint, message.topic, name, body, message.msgid
            )
        now = time_ns() // 1_000_000
        return session.seal(None, now, self._count(), answers=message, packed=packed)

    def _empty(self) -> Frames:
        """The original's answer to what it cannot read; signed only where originals are served."""
        codec = self._codec
        keyring = codec.keyring if PZC00 in codec.accept else None
        body = serializers.encode(codec.serializer, "")
        return original.encode(
            keyring, self.rep_endpoint, "", codec.serializer, body, self._protocol.new_urn()
        )

    def refuse(self, request: Request, error: Exception) -> None:
        """Tell a verified sender why its request was not executed; any thread."""
        packed = self.encode_refusal(request, error)
        if not request.oneway:
            request.caller.carrier.send(request, packed)

    def count_refusal(self, error: Exception) -> None:
        """Count a request that was refused."""
        self._counters.add("requests_refused")
        self._counters.add(f"refused_{type(error).__name__}")

    def encode_refusal(self, request: Request, error: Exception) -> Packed:
        """Count a refusal, and what tells it."""
        sender = printable(request.caller.agent)
        if not isinstance(error, PzcError):
            logger.error("request %s of %s failed", request.message.msgid, sender, exc_info=error)
        if request.oneway:
            logger.warning("one-way request of %s was refused: %s", sender, printable(str(error)))
        self.count_refusal(error)
        if request.caller.session is None:
            return self.encode(request, raised(error) if isinstance(error, Refused) else "")
        return "json", serializers.encode("json", refusal(error))

    def refuse_frames(self, frames: list[Any], error: ProtocolError, binding: str = "") -> Frames:
        """Count what could not be verified, and the frames that tell its sender so.

        ``binding`` stands behind the agent ids under the signatures of the connection.
        """
        self.count_refusal(error)
        logger.info("request refused: %s", error)
        accepted = self._codec.accept
        speaks_01 = bool(frames) and bytes(frames[0][:6]) == b"PZC01+" and PZC01 in accepted
        if isinstance(error, VersionError) or not speaks_01:
            return self._empty()
        sender = bytes(frames[0][:MAX_HEADER]).split(b"+", 2)[1].decode(errors="replace")
        known = len(frames) > 3 and len(frames[3]) < 128
        msgid = bytes(frames[3]).decode(errors="replace") if known else ""
        return self._protocol.encode(
            self._agent_id,
            "",
            refusal(error),
            reply_to=msgid,
            receiver=sender + binding,
            dialect=PZC01,
            serializer="json",
        )
