"""Unix listener: calls of the same host over a Unix socket, without a thread hop and without libzmq.

The socket's name is abstract (it leaves nothing behind) and told in the handshake. A connection::

    state      event                                      next
    -          connected, same user (SO_PEERCRED)         greeted: agent id and a fresh nonce are sent
    greeted    request for agent id / nonce               a session of that agent: executed in the
                                                          connection's thread, answered
    greeted    anything else                              refused
    greeted    a request for a link, over unix            a link: it is written without waiting from now on
    any        end of stream, or the agent is stopped     over, after the call that runs

The nonce stands under every signature of the connection and the counters of requests only rise, so
nothing can be replayed here that was said here, elsewhere or before; that is why neither clocks nor
the replay window are asked.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import secrets
import socket as sockets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TypeVar

from ...protocol import limits
from ...protocol.errors import ProtocolError, PzcError, Refused, VersionError
from ...protocol.frames import PZC01, Kind
from ...protocol.message import Identity, Message
from ...protocol.session import Session
from ...shm import machine
from ...transport.counters import Counters
from ...transport.descriptors import Starved
from ...transport.exchange import UnixExchange
from ...transport.greeting import GREETING, address, greeting
from ...transport.inherited import mine
from ...transport.laned import exchange_of
from ...transport.link_stream import LinkStream, has_ended, peer_pid, peer_uid
from ...transport.loop import Loop
from ...transport.wire import Protocol
from .call import Asker, Call, Frames, Packed
from .dispatcher import Dispatcher
from .presence import Presence
from .replies import Replies

_SCARCITY_PAUSE = 0.25
"""Seconds without accepting anything after no descriptor, memory or thread was left for a connection."""


logger = logging.getLogger("pzc.unix")

CLOSE_TIMEOUT = 2.0
"""Seconds that `UnixListener.close` waits for the calls that run."""

DYING = 0.25
"""Seconds within which a process whose connections were closed by its end has ended."""

_SEND_TIMEOUT = 30.0

_TOGETHER = 16
"""Answers that wait for one another at most."""

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

T = TypeVar("T")


class UnixListener:
    """The listening socket of one agent, and its connections.

    Args:
        loop: accepts connections.
        protocol: checks requests.
        agent_id: of this agent.
        replies: formats refusals.
        counters: where everything is counted.
        dispatcher: answers verified requests in the calling thread.
        presence: told who is there, and who has died.
    """

    def __init__(
        self,
        loop: Loop,
        protocol: Protocol,
        agent_id: str,
        replies: Replies,
        counters: Counters,
        dispatcher: Dispatcher,
        presence: Presence,
    ) -> None:
        self._loop = loop
        self.presence = presence
        self.protocol = protocol
        self.agent_id = agent_id
        self.replies = replies
        self.counters = counters
        self.dispatcher = dispatcher
        self._lock = threading.Lock()
        self._connections: set[UnixConnection] = set()
        self._closed = self._resting = False
        self.name = ""
        self._socket: sockets.socket | None = None
        if machine.LANE and PZC01 in protocol.codec.accept:
            self._listen()

    def _listen(self) -> None:
        try:
            self._socket = mine(partial(sockets.socket, sockets.AF_UNIX, sockets.SOCK_STREAM))
            self._socket.bind(address(self.agent_id))
            self._socket.listen(64)
        except OSError as exc:
            logger.info("no fast lane for calls of this host: %s", exc)
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            return
        self._socket.setblocking(False)
        self.name = f"pzc/{self.agent_id}"

    def __len__(self) -> int:
        return len(self._connections)

    def start(self) -> None:
        """Accept connections; I/O thread."""
        if self._socket is not None:
            self._loop.register(self._socket.fileno(), self._on_connect)

    def _on_connect(self) -> None:
        listening = self._socket
        if listening is None:
            return
        try:
            accepted = mine(lambda: listening.accept()[0])
        except OSError as exc:
            if exc.errno in _SCARCE:
                self._rest(exc)
            else:
                logger.info("a connection to the fast lane failed: %s", exc)
            return
        try:
            self._take(accepted)
        except (OSError, RuntimeError) as exc:  # no thread is left
            accepted.close()
            self._rest(exc)
        else:
            self._resting = False

    def _take(self, accepted: sockets.socket) -> None:
        accepted.setblocking(True)
        if peer_uid(accepted) != os.geteuid() or len(self._connections) >= limits.current.connections:
            self.counters.add("fast_lane_refused")
            accepted.close()
            return
        connection = UnixConnection(self, accepted)
        with self._lock:
            if not self._closed:
                connection.start()
                self._connections.add(connection)
                self.counters.add("fast_lane_connections")
                return
        connection.abandon()

    def _rest(self, error: Exception) -> None:
        """Accept nothing for a moment: who cannot be accepted stays at the door, and would keep it open."""
        self.counters.add("fast_lane_rests")
        if not self._resting:
            self._resting = True
            logger.warning(
                "agent %s takes no more connections of this host for now, its clients use tcp: %s; close "
                "what is not needed, or raise the limit (ulimit -n, ulimit -u)", self.agent_id, error,
            )  # fmt: skip
        if self._socket is not None:
            self._loop.unregister(self._socket.fileno())
            self._loop.call_later(_SCARCITY_PAUSE, self.start)

    def remove(self, connection: UnixConnection) -> None:
        """Forget a connection that has ended, and look after whoever died with it; in its thread."""
        with self._lock:
            self._connections.discard(connection)
        agent = connection.identity
        if agent is None or self._closed:
            return
        if has_ended(connection.pid, DYING):
            self._loop.call(partial(self.presence.gone, agent))
        else:
            self.presence.unfollow(connection.pid, agent)

    def stop_listening(self) -> None:
        """Accept no more; I/O thread."""
        if self._socket is not None:
            self._loop.unregister(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """End every connection; the calls that run have `CLOSE_TIMEOUT` seconds."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for connection in connections:
            connection.hang_up()
        for connection in connections:
            connection.join(max(0.0, deadline - time.monotonic()))


class UnixConnection(threading.Thread):
    """One client's connection and the thread that works for it.

    Attributes:
        identity: of whoever asks over it; None before the first request.
    """

    kind = "unix"
    connected = True

    def __init__(self, listener: UnixListener, socket: sockets.socket) -> None:
        super().__init__(name="pzc-unix", daemon=True)
        self._listener = listener
        self.protocol = listener.protocol
        self._socket = socket
        self._stream = LinkStream(socket, "the client")
        self.pid = peer_pid(socket)
        self._nonce = secrets.token_hex(16)
        self._exchange: UnixExchange | None = None
        self.identity: Identity | None = None
        self._on_end: Callable[[], object] | None = None
        self._counts = listener.counters.tally()
        self.waits = True

    def run(self) -> None:
        """Serve the client until one of both hangs up."""
        try:
            until = time.monotonic() + GREETING
            self._stream.send(greeting(self._listener.agent_id, self._nonce), until)
            self._serve(*self._meet())
        except Starved as exc:
            logger.warning("what process %d asked was lost: %s", self.pid, exc)
        except PzcError as exc:
            logger.debug("a connection of the fast lane ended: %s", exc)
        except Exception:
            logger.exception("a connection of the fast lane failed")
        finally:
            (self._exchange or self._stream).close()
            if self._on_end is not None:
                self._on_end()
            self._listener.counters.fold(self._counts)
            self._listener.remove(self)

    def _serve(self, asker: Asker, message: Message) -> None:
        """Answer requests, of which the first one came already."""
        exchange = self._exchange
        if exchange is None:
            return
        handle, receive, send = self._listener.dispatcher.handle, exchange.receive, exchange.send
        counts = self._counts
        while self.waits:
            counts["requests"] += 1
            packed = handle(asker, message)
            if packed is not None:
                send(None, monotonic() + _SEND_TIMEOUT, answers=message, packed=packed)
                counts["replies"] += 1
            message = receive(math.inf)
        self._serve_many(asker, exchange, [message])

    def _serve_many(self, asker: Asker, exchange: UnixExchange, messages: list[Message]) -> None:
        """Answer requests as they come, all that are there with as few writes as possible."""
        handle, counts = self._listener.dispatcher.handle, self._counts
        while True:
            counts["requests"] += len(messages)
            answers: list[tuple[object, Message | None]] = []
            for message in messages:
                packed = handle(asker, message)
                if packed is not None:
                    answers.append((packed, message))
                    if len(answers) == _TOGETHER:
                        self._send_many(exchange, answers)
            self._send_many(exchange, answers)
            messages = exchange.receive_many(math.inf)

    def _send_many(self, exchange: UnixExchange, answers: list[tuple[object, Message | None]]) -> None:
        if answers:
            self._guarded(partial(exchange.send_many, answers, packed=True), len(answers))
            answers.clear()

    def _meet(self) -> tuple[Asker, Message]:
        """Whoever sends the first request that holds, and that request."""
        listener, receiver = self._listener, f"{self._listener.agent_id}/{self._nonce}"
        while True:
            frames = self._stream.receive(math.inf)
            try:
                message = self.protocol.open(frames, Kind.REQUEST, receiver=receiver, judge_time=False)
                if message.stamp is None:
                    raise VersionError(f"{message.dialect} is not spoken over a Unix socket")
                return self._begin(message), message
            except ProtocolError as exc:
                listener.counters.add("requests")
                refused = listener.replies.refuse_frames(frames, exc, f"/{self._nonce}")
                self._stream.send(refused, time.monotonic() + _SEND_TIMEOUT)

    def _begin(self, message: Message) -> Asker:
        ring = self.protocol.codec.keyring
        if self.pid == os.getpid() and ring is not None and message.signer is ring.others_own:
            message.facts = replace(message.facts, signer=ring.active, trusted=ring.active.trusted)
        binding, listener, user = f"/{self._nonce}", self._listener, os.geteuid()
        session = Session.answering(
            self.protocol.codec, listener.agent_id, self.protocol.epoch, message, binding=binding,
            serializer="link" if message.serializer == "link" else None,  # of its small messages
        )  # fmt: skip
        self._exchange = exchange_of(self._stream, session, self.protocol.counter(), self._refuse)
        self.identity = message.identity
        listener.presence.follow(self.pid, message.identity)
        place = f"unix pid {self.pid} uid {user}"
        return Asker(message.sender, message.signer, place, self, session, user)

    def _refuse(self, frames: Frames, error: ProtocolError) -> None:
        """The session did not take what came: say why, and go on."""
        self._listener.counters.add("requests")
        refused = self._listener.replies.refuse_frames(frames, error, f"/{self._nonce}")
        if self._exchange is not None:
            self._guarded(partial(self._exchange.transmit, refused), 1)

    def go_on(self) -> None:
        """Receive while calls run, from now on, and answer in any order."""
        self.waits = False

    @property
    def is_link(self) -> bool:
        """True after `become_link`."""
        return self._on_end is not None

    def become_link(self, make: Callable[[UnixExchange], T], on_end: Callable[[], object]) -> T:
        """Have everything written without waiting from now on.

        Args:
            make: makes what writes to the exchange from now on, which it diverts and in the end releases.
            on_end: called once, when the connection is over.

        Raises:
            Refused: when it is a link already.
        """
        if self._on_end is not None or self._exchange is None:
            raise Refused("the connection is that of another link")
        made = make(self._exchange)
        self._on_end = on_end
        return made

    def is_gone(self) -> bool:
        """True when the client has hung up."""
        return self._stream.hung_up()

    def send(self, request: Call, packed: Packed) -> bool:
        """Send an answer; False when the client has gone. Any thread."""
        exchange = self._exchange
        if exchange is None:
            return False
        return self._guarded(partial(exchange.send, None, answers=request.message, packed=packed), 1)

    def _guarded(self, send: Callable[[float], object], count: int) -> bool:
        try:
            send(time.monotonic() + _SEND_TIMEOUT)
        except PzcError as exc:
            self._listener.counters.add("replies_lost", count)
            logger.info("replies could not be sent: %s", exc)
            return False
        self._listener.counters.add("replies", count)
        return True

    def abandon(self) -> None:
        """Close it; it was never started."""
        self._stream.close()

    def hang_up(self) -> None:
        """Receive no more; the reply of the call that runs is still sent."""
        with contextlib.suppress(OSError):  # the client was quicker
            self._socket.shutdown(sockets.SHUT_RD)
