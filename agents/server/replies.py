"""Replies: the one answer that goes back for a request, whatever carried it.

The answer is in the request's serializer and suite. The sequence field of a PZC01 request tells what
its sender can read (`ARRAYS`, `REFERENCES`).
"""

from __future__ import annotations

import logging
from time import monotonic, time_ns
from typing import Any

from ...delivery.throttle import Throttle
from ...protocol import limits, serializers
from ...protocol.codec import too_large
from ...protocol.contents import RETURN, portable, raised, refusal
from ...protocol.errors import (
    LocalProtocolError,
    ProtocolError,
    PzcError,
    RemoteProtocolError,
    RoleRefused,
    VersionError,
)
from ...protocol.frames import MAX_HEADER, PZC01
from ...protocol.keyring import Key, Role
from ...protocol.message import Message
from ...protocol.session import pack_answer
from ...protocol.shown import printable
from ...transport.counters import Counters
from ...transport.wire import Protocol
from ..compat import pizco
from .call import Asker, Call, Frames, Packed

logger = logging.getLogger("pzc.replies")


def authorize(signer: Key | None, needed: Role, what: str = "this") -> None:
    """Check the role of the key that signed a request for something; unsigned ones are not restricted.

    Raises:
        RoleRefused: naming the key, its role and the role that it takes.
    """
    if signer is not None and signer.role < needed:
        if signer.role < Role.OBSERVER:
            raise RoleRefused(
                f"key {signer.name} is this agent's own, which others hold to verify what it says: it lets "
                'nobody else ask. Sign with another key: call = "NAME" in a keyring, or PZC_KEY'
            )
        role = signer.role.name.lower()
        raise RoleRefused(f"key {signer.name} is {role}; {what} needs {needed.name.lower()}")


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
        self._logged: dict[str, Throttle] = {}
        self.pizco = pizco.PizcoClients(protocol)

    def reply(self, request: Call, content: object) -> bool:
        """Answer a request, unless none is wanted; False when its sender is known to be gone. Any thread."""
        return request.oneway or request.caller.carrier.send(request, self.encode(request, content))

    def encode(self, request: Call, content: Any, failed: Exception | None = None) -> Packed:
        """An answer in the serializer of its request; the reason, when the content cannot be expressed.

        Args:
            request: that is answered.
            content: of the answer.
            failed: why another content could not be expressed, which this one tells.
        """
        message = request.message
        try:
            if not request.caller.native:
                packed = self.pizco.pack(content, message.serializer)
            else:
                if not (content.__class__ is tuple and len(content) == 3 and content[1] is RETURN):
                    content = portable(content)
                packed = pack_answer(content, message)
            if len(packed[1]) > self._codec.max_content:
                raise too_large(len(packed[1]), self._codec.max_content)
            return packed
        except Exception as exc:
            if failed is None:
                self._counters.add("replies_not_serialisable")
                logger.warning("a reply cannot be expressed in %s: %s", message.serializer, exc)
                return self.encode(request, raised(exc), failed=exc)
            logger.warning("nor can the reason: %s", exc)
            if not request.caller.native:
                return self._codec.serializer, serializers.encode(self._codec.serializer, "")
            return "json", serializers.encode("json", refusal(RemoteProtocolError(str(exc))))

    def seal(self, caller: Asker, message: Message, packed: Packed) -> Frames:
        """Five frames of an answer to a caller's message."""
        session = caller.session
        if session is None:
            return self.pizco.seal(message, packed)
        now = time_ns() // 1_000_000
        return session.seal(None, now, self._count(), answers=message, packed=packed)

    def unsent(self, caller: Asker, message: Message, size: int) -> Frames:
        """Five frames in the place of an answer of so many bytes, for which its reader has to make room."""
        error = LocalProtocolError(
            f"the answer of {size} bytes is not sent, though the call has run: those before it wait for "
            "their reader; read them first, or raise the bound of all that wait for one key "
            f"([limits] unsent_per_key = {limits.current.unsent_per_key})"
        )
        return self.seal(caller, message, self.encode(Call(caller, message), raised(error)))

    def refuse(self, request: Call, error: Exception) -> None:
        """Tell a verified sender why its request was not executed; any thread."""
        packed = self.encode_refusal(request, error)
        if not request.oneway:
            request.caller.carrier.send(request, packed)

    def count_refusal(self, error: Exception) -> None:
        """Count a request that was refused."""
        self._counters.add("requests_refused")
        self._counters.add(f"refused_{type(error).__name__}")

    def _may_log(self, key_id: str) -> bool:
        """Once a minute for each key: its holders could fill the log else."""
        return self._logged.setdefault(key_id, Throttle(1 / 60)).admit(monotonic())

    def encode_refusal(self, request: Call, error: Exception) -> Packed:
        """Count a refusal, and what tells it."""
        sender = request.caller.identity.shown
        if not isinstance(error, PzcError):
            logger.error("request %s of %s failed", request.message.msgid, sender, exc_info=error)
        if request.oneway and self._may_log(request.key_id):
            logger.warning("one-way request of %s was refused: %s", sender, printable(str(error)))
        self.count_refusal(error)
        if not request.caller.native:
            return self.encode(request, self.pizco.refusal(error))
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
            return pizco.unreadable(self._protocol, self.pizco.endpoint)
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
