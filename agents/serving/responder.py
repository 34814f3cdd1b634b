"""Responder: the REP endpoint of an agent (a ROUTER socket speaking the REP envelope).

For every request, in the I/O thread: envelope → verify → hand on; a short cut does all of it for clients that
it knows. Exactly one reply goes back,
whatever was received: a plain REQ peer would wait for ever otherwise. Only a request that says
that it wants none gets none.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import zmq

from ...protocol.errors import ProtocolError, SignatureError
from ...protocol.frames import MAX_HEADER, PZC00, Buffer, Kind
from ...protocol.signing import KEY_ID_SIZE
from ...protocol.window import ReplayWindow, SeenSignatures
from ..calling.peers import Nonces
from ..counters import Counters
from ..sockets.endpoints import as_original, bind, check, is_wildcard, new_socket, stay_in_cache
from ..sockets.loop import Loop
from ..sockets.parts import NOW, is_readable, reached_at, receive_parts, send_parts
from ..sockets.watch import Watch
from ..wire import Protocol
from .execution import Execution
from .regulars import Regulars
from .replies import Frames, Replies, Request, Transmit, guarded
from .results import Results
from .shortcut import House

logger = logging.getLogger("pzc.responder")

_BATCH = 64


class Responder:
    """One ROUTER socket.

    Args:
        loop: owner of the socket.
        endpoint: where to bind.
        protocol: checks.
        agent_id: receiver under the signature of requests.
        replies: formats refusals.
        counters: where everything is counted.
        execution: answers verified requests.
        results: keeps what is answered by a short cut.
    """

    def __init__(
        self,
        loop: Loop,
        endpoint: str,
        protocol: Protocol,
        agent_id: str,
        replies: Replies,
        counters: Counters,
        execution: Execution,
        results: Results,
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._agent_id = agent_id
        self._replies = replies
        self._counters = counters
        self._handle = execution.handle
        self._window = ReplayWindow()
        self._seen = SeenSignatures()
        self.nonces = Nonces()
        house = House(protocol, agent_id, execution, replies, results, counters)
        self._regulars = Regulars(house, self._window, self.nonces)
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
        replies.rep_endpoint = as_original(self.endpoint)
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
            if self._closed or not self._loop.in_thread():  # a call that was quick so far was not
                return False
            if not is_readable(socket):
                return alone
        return False

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
        transmit = partial(self._transmit, route)
        regular = self._regulars.admit(frames) if len(frames) == 5 else None
        if regular is None:
            try:
                request = self._open(frames, transmit)
            except ProtocolError as exc:
                self._send(route, self._replies.refuse_frames(frames, exc))
                return True
        elif regular.serve(frames, transmit):
            return True
        else:
            request = regular.request(frames, transmit)
        guarded(self._replies, request, self._handle)
        return False

    def _open(self, frames: list[Buffer], transmit: Transmit) -> Request:
        handshake = False
        try:
            envelope = self._protocol.open(
                frames,
                Kind.REQUEST,
                receiver=self._agent_id,
                offset_ms=self._offset(frames),
                window=self._window,
                seen=self._seen,
            )
        except SignatureError as first:
            try:
                envelope = self._protocol.open(frames, Kind.REQUEST, judge_time=False)
            except SignatureError:
                raise first from None
            handshake = True
        else:
            self._regulars.meet(envelope, frames)
        suite = frames[4][0] if len(frames[4]) and envelope.stamp is not None else 0
        request = Request(envelope, suite, handshake, envelope.sender, "tcp", transmit)
        if self._reached is not None and envelope.dialect == PZC00:
            request.reached = reached_at(self._reached)
        return request

    def _offset(self, frames: list[Buffer]) -> int:
        if not self.nonces.measured or len(frames) != 5:
            return 0
        key_id = bytes(frames[4][-KEY_ID_SIZE:]).decode(errors="replace") if frames[4][:1] != b"\0" else ""
        parts = bytes(frames[0][:MAX_HEADER]).split(b"+", 2)
        return self.nonces.offset_of(key_id, parts[1].decode(errors="replace")) if len(parts) == 3 else 0

    def _transmit(self, route: list[Buffer], frames: Frames) -> bool:
        if self._loop.in_thread():
            return self._send(route, frames)
        self._loop.call(partial(self._send, route, frames))
        return True

    def _send(self, route: list[Buffer], frames: Frames) -> bool:
        if self._closed:
            return False
        try:
            send_parts(self._socket, route, frames)
        except zmq.ZMQError as exc:
            self._counters.add("replies_lost")
            logger.info("a reply could not be sent: %s", exc)
            return False
        self._counters.add("replies")
        return True
