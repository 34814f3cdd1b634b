"""Fast lane: calls of the same host over a Unix socket, without a thread hop and without libzmq.

The socket's name is abstract (it leaves nothing behind) and told in the handshake. A connection::

    state      event                                      next
    -          connected, same user (SO_PEERCRED)         greeted: agent id and a fresh nonce are sent
    greeted    request for agent id / nonce, counter up   executed in the connection's thread, answered
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
from functools import partial
from typing import TYPE_CHECKING

from ...protocol import limits
from ...protocol.envelope import Envelope, Identity
from ...protocol.errors import PeerLost, ProtocolError, PzcError, Refused, ReplayedMessage
from ...protocol.frames import PZC01, Kind, format_header
from ..counters import Counters
from ..links.pipe import Pipe
from ..sockets.inherited import LANE, mine
from ..sockets.loop import Loop
from ..sockets.stream import Stream, has_ended, peer_pid, peer_uid
from ..wire import Protocol
from .execution import Execution
from .replies import Frames, Replies, Request, guarded
from .results import Results
from .shortcut import ConnectionCut, House

if TYPE_CHECKING:
    from ..links.granted import Granted

logger = logging.getLogger("pzc.fastlane")

CLOSE_TIMEOUT = 2.0
"""Seconds that `FastLane.close` waits for the calls that run."""

DYING = 0.25
"""Seconds within which a process whose connections were closed by its end has ended."""

_SEND_TIMEOUT = 30.0
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def available() -> bool:
    """True where abstract Unix sockets exist."""
    return os.name == "posix" and os.uname().sysname == "Linux"


def _address(agent_id: str) -> str:
    return f"{LANE.decode()}{agent_id}"


class FastLane:
    """The listening socket of one agent, and its connections.

    Args:
        loop: accepts connections.
        protocol: checks requests.
        agent_id: of this agent.
        replies: formats refusals.
        counters: where everything is counted.
        execution: answers verified requests in the calling thread.
        results: keeps what is answered by a short cut.
        on_dead: told in the I/O thread of every agent whose process ended with its connection.
    """

    def __init__(
        self,
        loop: Loop,
        protocol: Protocol,
        agent_id: str,
        replies: Replies,
        counters: Counters,
        execution: Execution,
        results: Results,
        on_dead: Callable[[Identity], object],
    ) -> None:
        self._loop = loop
        self._on_dead = on_dead
        self.protocol = protocol
        self.agent_id = agent_id
        self.replies = replies
        self.counters = counters
        self.execution = execution
        self.house = House(protocol, agent_id, execution, replies, results, counters)
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._closed = self._resting = False
        self.name = ""
        self._socket: sockets.socket | None = None
        if available() and PZC01 in protocol.codec.accept:
            self._listen()

    def _listen(self) -> None:
        try:
            self._socket = mine(sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM))
            self._socket.bind(_address(self.agent_id))
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
        if self._socket is None:
            return
        try:
            accepted = mine(self._socket.accept()[0])
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
        connection = Connection(self, accepted)
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
            self._loop.call_later(limits.current.scarcity_pause, self.start)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._connections.discard(connection)

    def look_after(self, connection: Connection) -> None:
        """Tell of the agents that died with a connection that has ended; in its thread."""
        if connection.callers and not self._closed and has_ended(connection.pid, DYING):
            for sender in connection.callers:
                self._loop.call(partial(self._on_dead, sender))

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


class Connection(threading.Thread):
    """One client's connection and the thread that works for it."""

    def __init__(self, lane: FastLane, socket: sockets.socket) -> None:
        super().__init__(name="pzc-unix", daemon=True)
        self.fast = lane
        self._socket = socket
        self._stream = Stream(socket, "the client")
        self.pid = peer_pid(socket)
        self.address = f"unix pid {self.pid} uid {os.geteuid()}"
        self.nonce = secrets.token_hex(16)
        self.receiver = f"{lane.agent_id}/{self.nonce}"
        self.last = -1
        self.callers: set[Identity] = set()
        self.short_cut: ConnectionCut | Granted | None = None
        self._sending = threading.Lock()
        self._on_end: Callable[[], object] | None = None
        self._never = threading.Event()

    def run(self) -> None:
        """Serve the client until one of both hangs up."""
        try:
            header = format_header(PZC01, self.fast.agent_id, "", 0)
            greeting = [header, b"", self.nonce.encode(), b"", b""]
            self._stream.send(greeting, time.monotonic() + limits.current.greeting)
            receive = self._stream.receive
            while True:
                frames = receive(math.inf, self._never)
                if self.short_cut is None or not self.short_cut.serve(frames):
                    self._serve(frames)
        except PzcError as exc:
            logger.debug("a connection of the fast lane ended: %s", exc)
        except Exception:
            logger.exception("a connection of the fast lane failed")
        finally:
            self.fast.remove(self)
            self._stream.close()
            if self._on_end is not None:
                self._on_end()
            self.fast.look_after(self)

    def _serve(self, frames: Frames) -> None:
        fast = self.fast
        fast.counters.add("requests")
        try:
            request = self._open(frames)
        except ProtocolError as exc:
            self.transmit(fast.replies.refuse_frames(frames, exc, f"/{self.nonce}"))
            return
        guarded(fast.replies, request, fast.execution.handle_here)

    def _open(self, frames: Frames) -> Request:
        envelope = self.fast.protocol.open(
            frames, Kind.REQUEST, receiver=self.receiver, judge_time=False, by_reference=self._stream.referred
        )
        stamp = envelope.stamp
        if stamp is not None:
            if stamp.counter <= self.last:
                raise ReplayedMessage(f"message {stamp.counter} came after message {self.last}")
            self.last = stamp.counter
            self.callers.add(envelope.identity)
            house = self.fast.house
            if self.short_cut is None and house.serves(envelope, frames[4]):
                self.short_cut = ConnectionCut(self, house, envelope, bytes(frames[0]))
        return self.request(envelope, frames)

    def request(self, envelope: Envelope, frames: Frames) -> Request:
        """A verified message of this connection as a request."""
        return Request(
            envelope,
            frames[4][0] if envelope.stamp is not None else 0,
            False,
            f"{envelope.sender}/{self.nonce}",
            self.address,
            self.transmit,
            self._stream.allocate,
            self._stream.proves,
            self.is_gone,
            connection=self,
        )

    @property
    def is_link(self) -> bool:
        """True after `become_link`."""
        return self._on_end is not None

    def become_link(self, on_end: Callable[[], object]) -> Pipe:
        """Have everything written without waiting from now on.

        Args:
            on_end: called once, when the connection is over.

        Raises:
            Refused: when it is a link already.
        """
        with self._sending:
            if self._on_end is not None:
                raise Refused("the connection is that of another link")
            pipe = Pipe(self._stream)
            self._on_end = on_end
            return pipe

    def is_gone(self) -> bool:
        """True when the client has hung up."""
        return not self._stream.idle()

    def transmit(self, frames: Frames) -> bool:
        """Send frames to the client; False when it has gone. Any thread."""
        try:
            with self._sending:
                self._stream.send(frames, time.monotonic() + _SEND_TIMEOUT)
        except PzcError as exc:
            self.fast.counters.add("replies_lost")
            logger.info("a reply could not be sent: %s", exc)
            return False
        self.fast.counters.add("replies")
        return True

    def abandon(self) -> None:
        """Close it; it was never started."""
        self._stream.close()

    def hang_up(self) -> None:
        """Receive no more; the reply of the call that runs is still sent."""
        with contextlib.suppress(OSError):  # the client was quicker
            self._socket.shutdown(sockets.SHUT_RD)


def connect(agent_id: str, endpoint: str, deadline: float = math.inf) -> tuple[Stream, str]:
    """A connection to the agent of that id on this host, and the nonce of the connection.

    It takes `greeting` seconds at most, and ends at the deadline (monotonic seconds).

    Raises:
        PeerLost: when there is none for this user.
    """
    if not available():
        raise PeerLost("this system has no fast lane")
    now = time.monotonic()
    until = min(deadline, now + limits.current.greeting)
    try:
        socket = mine(sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM))
    except OSError as exc:
        raise PeerLost(f"{endpoint} cannot be connected to: {exc} (see ulimit -n)") from exc
    try:
        socket.settimeout(max(0.001, until - now))
        socket.connect(_address(agent_id))
        if peer_uid(socket) != os.geteuid():
            raise PeerLost(f"the fast lane of {endpoint} belongs to another user")
        socket.settimeout(None)
    except OSError as exc:
        socket.close()
        raise PeerLost(f"{endpoint} has no fast lane on this host: {exc}") from exc
    stream = Stream(socket, endpoint)
    try:
        greeting = stream.receive(until, threading.Event())
        nonce = bytes(greeting[2]).decode("ascii", "replace")
        if greeting[0] != format_header(PZC01, agent_id, "", 0) or len(nonce) != 32:
            raise PeerLost(f"the fast lane of {endpoint} did not greet as agent {agent_id}")
    except BaseException as exc:
        stream.close()
        if isinstance(exc, PeerLost) or not isinstance(exc, PzcError):
            raise
        raise PeerLost(f"the fast lane of {endpoint} did not answer: {exc}") from exc
    return stream, nonce
