"""Responder: the REP endpoint of an agent (a ROUTER socket speaking the REP envelope).

For every request, in the I/O thread: envelope → verify → decode (small contents) → answer at
once what must not wait for the lane, hand the rest on. Exactly one reply goes back, whatever was
received: a plain REQ peer would wait for ever otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from ..protocol.codec import Envelope
from ..protocol.errors import ProtocolError, PzcError, Refused, SignatureError, VersionError
from ..protocol.frames import MAX_HEADER, PZC00, PZC01, Buffer, Kind
from ..protocol.window import ReplayWindow, SeenSignatures
from .counters import Counters
from .endpoints import bind, new_socket
from .loop import Loop
from .messages import portable, raised, refusal
from .peers import Nonces
from .watch import Watch
from .wire import Protocol

logger = logging.getLogger("pzc.responder")

_BATCH = 64


@dataclass(slots=True)
class Request:
    """One verified request and the way back to its sender.

    Attributes:
        envelope: verified, not decoded.
        route: ZMQ envelope of the sender.
        handshake: True when the receiver's agent id was not under the signature.
    """

    envelope: Envelope
    route: list[bytes]
    handshake: bool


class Responder:
    """One ROUTER socket.

    Args:
        loop: owner of the socket.
        endpoint: where to bind.
        protocol: checks and formats.
        agent_id: receiver under the signature of requests, sender of replies.
        counters: where everything is counted.
        handle: gets each verified request, in the I/O thread.
    """

    def __init__(
        self,
        loop: Loop,
        endpoint: str,
        protocol: Protocol,
        agent_id: str,
        counters: Counters,
        handle: Callable[[Request], None],
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._agent_id = agent_id
        self._counters = counters
        self._handle = handle
        self._window = ReplayWindow()
        self._seen = SeenSignatures()
        self.nonces = Nonces()
        self._closed = False
        self._watch: Watch | None = None
        self._socket = new_socket(loop.context, zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a reply that has nowhere to go is counted
        try:
            self.endpoint = bind(self._socket, endpoint)
        except BaseException:
            self._socket.close(0)
            raise

    def start(self) -> None:
        """Watch the socket; I/O thread."""
        self._loop.register(self._socket, self._on_readable)
        self._watch = Watch(self._loop, self._socket, self.endpoint, self._counters, "rep_strangers")

    def close(self) -> None:
        """Close the socket; its last replies are still sent. I/O thread."""
        self._closed = True
        if self._watch is None:
            self._socket.close(0)
        else:
            self._watch.close()

    def _on_readable(self) -> None:
        for _ in range(_BATCH):
            if self._closed:
                return
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._take(parts)

    def _take(self, parts: list[bytes]) -> None:
        try:
            end = parts.index(b"", 1) + 1
        except ValueError:
            self._counters.add("requests_without_envelope")
            return
        route, frames = parts[:end], parts[end:]
        self._counters.add("requests")
        try:
            request = self._open(frames, route)
        except ProtocolError as exc:
            self._refuse_frames(route, frames, exc)
            return
        try:
            self._handle(request)
        except Exception as exc:
            if not isinstance(exc, PzcError):
                logger.exception("request %s of %s failed", request.envelope.msgid, request.envelope.sender)
            self.refuse(request, exc)

    def _open(self, frames: list[bytes], route: list[bytes]) -> Request:
        offset = self._offset(frames)
        try:
            envelope = self._protocol.open(
                frames,
                Kind.REQUEST,
                receiver=self._agent_id,
                offset_ms=offset,
                window=self._window,
                seen=self._seen,
            )
            return Request(envelope, route, handshake=False)
        except SignatureError as first:
            try:
                envelope = self._protocol.open(frames, Kind.REQUEST, judge_time=False)
            except SignatureError:
                raise first from None
            return Request(envelope, route, handshake=True)

    def _offset(self, frames: list[bytes]) -> int:
        parts = frames[0][:MAX_HEADER].split(b"+", 2) if frames else []
        return self.nonces.offset_of(parts[1].decode(errors="replace")) if len(parts) == 3 else 0

    def _refuse_frames(self, route: list[bytes], frames: list[bytes], error: ProtocolError) -> None:
        self._counters.add("requests_refused")
        self._counters.add(f"refused_{type(error).__name__}")
        logger.info("request refused: %s", error)
        speaks_01 = bool(frames) and frames[0][:6] == b"PZC01+" and PZC01 in self._protocol.codec.accept
        if isinstance(error, VersionError) or not speaks_01:
            self._send(route, self._protocol.encode(self.endpoint, "", "", dialect=PZC00))
            return
        sender = frames[0][:MAX_HEADER].split(b"+", 2)[1].decode(errors="replace")
        msgid = frames[3].decode(errors="replace") if len(frames) > 3 and len(frames[3]) < 128 else ""
        self._send(route, self._refusal(error, msgid, sender))

    def _refusal(self, error: Exception, msgid: str, receiver: str) -> list[Buffer]:
        return self._protocol.encode(
            self._agent_id,
            "",
            refusal(error),
            reply_to=msgid,
            receiver=receiver,
            dialect=PZC01,
            serializer="json",
        )

    def refuse(self, request: Request, error: Exception) -> None:
        """Tell a verified sender why its request was not executed; any thread."""
        self._counters.add("requests_refused")
        self._counters.add(f"refused_{type(error).__name__}")
        envelope = request.envelope
        if envelope.dialect == PZC00 and isinstance(error, Refused):
            self.reply(request, raised(error))
        elif envelope.dialect == PZC00:
            self.reply(request, "")
        else:
            self._transmit(request.route, self._refusal(error, envelope.msgid, envelope.sender))

    def reply(self, request: Request, content: object) -> None:
        """Answer a request in its dialect and serializer; any thread."""
        envelope = request.envelope
        try:
            frames = self._encode(request, content)
        except Exception as exc:
            self._counters.add("replies_not_serialisable")
            logger.warning("a reply cannot be expressed in %s: %s", envelope.serializer, exc)
            frames = self._encode_failure(request, exc)
        self._transmit(request.route, frames)

    def _encode_failure(self, request: Request, error: Exception) -> list[Buffer]:
        try:
            return self._encode(request, raised(error))
        except Exception as exc:
            logger.warning("nor can the reason: %s", exc)
            return self._protocol.encode(self.endpoint, "", "", dialect=PZC00)

    def _encode(self, request: Request, content: object) -> list[Buffer]:
        envelope = request.envelope
        return self._protocol.encode(
            self.endpoint if envelope.dialect == PZC00 else self._agent_id,
            envelope.topic,
            portable(content, envelope.dialect, envelope.serializer),
            reply_to=envelope.msgid,
            receiver=envelope.sender,
            dialect=envelope.dialect,
            serializer=envelope.serializer,
        )

    def _transmit(self, route: list[bytes], frames: list[Buffer]) -> None:
        if self._loop.in_thread():
            self._send(route, frames)
        else:
            self._loop.call(lambda: self._send(route, frames))

    def _send(self, route: list[bytes], frames: list[Buffer]) -> None:
        if self._closed:
            return
        try:
            self._socket.send_multipart([*route, *frames], zmq.NOBLOCK, copy=len(frames[2]) < 1 << 16)
            self._counters.add("replies")
        except zmq.ZMQError as exc:
            self._counters.add("replies_lost")
            logger.info("a reply could not be sent: %s", exc)
