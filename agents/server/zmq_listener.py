"""ZeroMQ listener: the REP endpoint of an agent (a ROUTER socket speaking the REP envelope).

For every request, in the I/O thread: envelope → verify → dispatcher. Exactly one reply goes back, whatever
was received: a plain REQ peer would wait for ever otherwise. Only a request that says that it wants none gets
none.

A client's messages share a header, by which the session is found that verifies them; one that is not known is
met by its first request, in the order of checks that `Codec.open` has.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from time import time_ns
from typing import Any

import zmq

from ...protocol.errors import FrameError, ProtocolError, SignatureError
from ...protocol.frames import MAX_HEADER, Buffer, Kind
from ...protocol.memo import keep_recent
from ...protocol.message import Message
from ...protocol.session import Session
from ...protocol.signing import KEY_ID_SIZE
from ...protocol.window import ReplayWindow
from ...transport.counters import Counters
from ...transport.endpoints import bind, check, is_wildcard, new_socket, stay_in_cache
from ...transport.loop import Loop
from ...transport.parts import NOW, is_readable, reached_at, receive_parts, send_parts
from ...transport.unsent import Unsent
from ...transport.watch import Watch
from ...transport.wire import Protocol
from ..compat.pizco import is_pizco, name_of
from .call import Asker, Call, Frames, Packed
from .control import Nonces
from .dispatcher import Dispatcher
from .replies import Replies

_SESSIONS = 4096
"""Clients that are known over TCP by their headers; the one met first makes room."""


logger = logging.getLogger("pzc.listener")

_BATCH = 64


class ZmqListener:
    """One ROUTER socket.

    Args:
        loop: owner of the socket.
        endpoint: where to bind.
        protocol: checks.
        agent_id: receiver under the signature of requests.
        replies: formats refusals.
        counters: where everything is counted.
        dispatcher: answers verified requests.
    """

    kind = "tcp"
    waits = connected = False

    def __init__(
        self,
        loop: Loop,
        endpoint: str,
        protocol: Protocol,
        agent_id: str,
        replies: Replies,
        counters: Counters,
        dispatcher: Dispatcher,
    ) -> None:
        self._loop = loop
        self.protocol = protocol
        self._agent_id = agent_id
        self._replies = replies
        self._counters = counters
        self._handle = dispatcher.handle
        self._window = ReplayWindow()
        self.nonces = Nonces()
        self._askers: OrderedDict[bytes, Asker] = OrderedDict()  # by header
        self._closed = False
        self._watch: Watch | None = None
        self._socket = new_socket(loop.context, zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a reply that has nowhere to go is counted
        try:
            stay_in_cache(self._socket, check(endpoint))
            self.endpoint = bind(self._socket, endpoint)
        except BaseException:
            self._socket.close(0)
            raise
        self._pizco = replies.pizco
        self._pizco.endpoint = name_of(self.endpoint)
        self._unsent = Unsent()
        self._bounds = not self.endpoint.startswith("inproc://")  # where the reader has it as its own
        self._reached: zmq.Frame | None = None
        self._arrived = self._note_arrival if is_wildcard(self.endpoint) else None

    def start(self) -> None:
        """Watch the socket; I/O thread."""
        self._loop.register(self._socket, self._on_readable, looks=True)
        self._watch = Watch(self._loop, self._socket, self.endpoint, self._counters, "rep_strangers")

    def close(self) -> None:
        """Close the socket; its last replies are still sent. I/O thread."""
        self._closed = True
        if self._watch is None:
            self._socket.close(0)
        else:
            self._watch.close()

    def _on_readable(self) -> bool:
        socket, alone = self._socket, True
        for _ in range(_BATCH):
            try:
                peer = socket.recv(NOW)  # which something always follows
            except zmq.Again:  # there was other news of this socket
                return alone
            alone = self._take([peer, *receive_parts(socket, self._arrived)]) and alone
            if self._closed:
                return False
            if not is_readable(socket):
                return alone
        return False

    def _host_reached(self) -> str:
        return "" if self._reached is None else reached_at(self._reached)

    def _note_arrival(self, part: zmq.Frame) -> None:
        self._reached = part

    def _take(self, parts: list[Buffer]) -> bool:
        """Answer a request, or hand it on; True when no other socket can have been touched."""
        try:
            end = parts.index(b"", 1) + 1
        except ValueError:
            self._counters.add("requests_without_envelope")
            return True
        route = parts[:end]
        frames: list[Any] = parts[end:]
        self._counters.add("requests")
        handshake = False
        try:
            header = frames[0] if len(frames) == 5 else b""
            asker = self._askers.get(header) if type(header) is bytes else None
            found = None if asker is None else self._open_known(asker, frames)
            if asker is None or found is None:
                asker, found, handshake = self._meet(frames)
            if asker.session is None and (info := self._pizco.info(found, self._host_reached)) is not None:
                return self._reply(asker, found, info, route)
        except ProtocolError as exc:
            self._send(route, self._replies.refuse_frames(frames, exc))
            return True
        packed = self._handle(asker, found, route, handshake)
        # What ran here was beside the loop, and could touch no socket of it; a control word may have.
        return packed is not None and self._reply(asker, found, packed, route)

    def _open_known(self, asker: Asker, frames: list[Buffer]) -> Message | None:
        """A message of a session; None when it may be of another one."""
        if asker.session is None:
            return None
        offset = self.nonces.offset_of(asker.key_id, asker.agent)
        try:
            return asker.session.open(
                frames, now_ms=time_ns() // 1_000_000, offset_ms=offset, window=self._window
            )
        except (SignatureError, FrameError):
            return None

    def _meet(self, frames: list[Buffer]) -> tuple[Asker, Message, bool]:
        """Who sent a request, the request, and whether it was addressed to nobody in particular."""
        if is_pizco(frames):
            message = self._pizco.open(frames)
            asker = Asker(message.sender, message.signer, "tcp", self)
            asker.native = False
            return asker, message, False
        try:
            message = self.protocol.open(
                frames,
                Kind.REQUEST,
                receiver=self._agent_id,
                offset_ms=self._offset(frames),
                window=self._window,
            )
        except SignatureError as first:
            try:
                message = self.protocol.open(frames, Kind.REQUEST, judge_time=False)
            except SignatureError:
                raise first from None
            return self._asker(message), message, True
        asker = self._asker(message)
        keep_recent(self._askers, bytes(frames[0]), asker, _SESSIONS)
        return asker, message, False

    def _asker(self, message: Message) -> Asker:
        protocol = self.protocol
        session = Session.answering(protocol.codec, self._agent_id, protocol.epoch, message)
        return Asker(message.sender, message.signer, "tcp", self, session)

    def _offset(self, frames: list[Buffer]) -> int:
        if not self.nonces.measured or len(frames) != 5:
            return 0
        key_id = bytes(frames[4][-KEY_ID_SIZE:]).decode(errors="replace") if frames[4][:1] != b"\0" else ""
        parts = bytes(frames[0][:MAX_HEADER]).split(b"+", 2)
        return self.nonces.offset_of(key_id, parts[1].decode(errors="replace")) if len(parts) == 3 else 0

    def is_gone(self) -> bool:
        """Nobody can know that."""
        return False

    def send(self, request: Call, packed: Packed) -> bool:
        """Send an answer; False when there is no way any more. Any thread."""
        return self._reply(request.caller, request.message, packed, request.route)

    def _reply(self, asker: Asker, message: Message, packed: Packed, route: Frames) -> bool:
        # A reader whose poll gets no answer asks again for what was not sent.
        refuse = None if packed[0] == "link" else partial(self._replies.unsent, asker, message)
        frames = self._replies.seal(asker, message, packed)
        send = partial(self._send, route, frames, asker.key_id, refuse)
        if self._loop.in_thread():
            return send()
        self._loop.call(send)
        return True

    def _send(
        self, route: Frames, frames: Frames, key_id: str = "", refuse: Callable[[int], Frames] | None = None
    ) -> bool:
        """Send an answer; what ``refuse`` makes of its size when too much before it is unsent."""
        if self._closed:
            return False
        peer, size = route[0], len(frames[2])
        if self._bounds and not self._unsent.has_room(peer, key_id, size):
            self._counters.add("replies_unsent")
            if refuse is None:
                return False
            frames = refuse(size)
        try:
            part = self._unsent.part(peer, key_id, frames[2]) if self._bounds else None
            send_parts(self._socket, route, frames, part)
        except zmq.ZMQError as exc:
            self._counters.add("replies_lost")
            logger.info("a reply could not be sent: %s", exc)
            return False
        self._counters.add("replies")
        return True
