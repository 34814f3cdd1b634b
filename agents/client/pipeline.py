"""Pipeline: the requests to one peer that nobody waits for now, many of them in flight.

They go over ZeroMQ, and over a Unix connection of their own as soon as there is one (see `UnixWay`). They are
sealed in the order in which they are submitted, written by the I/O thread, as many as wait at once,
and each is found again by its id when its reply comes::

    request    event                                          next
    -          submit                                         waiting
    waiting    the I/O thread wrote it                        sent
    waiting    cancelled, its time is over                    over, never sent
    sent       a note that the call runs                      sent
    sent       its reply                                      over
    sent       a refusal by an agent that replaced the peer   sent again, after a handshake (see `Client`)
    sent       cancelled, its time is over, agent stopped     over
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import zmq

from ...protocol import limits
from ...protocol.errors import AgentClosed, LocalLimit, PeerLost, PzcError
from ...protocol.frames import PZC00, Buffer
from ...protocol.message import Message
from ...protocol.peer import Peer
from ...protocol.reply import reply_of
from ...transport.counters import Counters
from ...transport.endpoints import connect, new_socket
from ...transport.loop import Loop, Timer
from ...transport.parts import is_readable, receive_parts, send_parts
from ...transport.watch import LINGER_MS
from .connection import Sealed, is_running
from .many import WORTH_IT, UnixWay
from .pending import UNANSWERED, Pending

logger = logging.getLogger("pzc.requests")

_RETRY = 0.005
"""Seconds after which a request is tried again when its peer is not connected yet."""


class Owner(Protocol):
    """What a pipeline tells its client, in the I/O thread; and the requests in flight to all peers, by id."""

    loop: Loop
    counters: Counters
    pending: dict[str, Pending]

    def refused(self, entry: Pending, message: Message, content: Any) -> None:
        """A request was refused."""
        ...

    def expired(self, entry: Pending) -> None:
        """The time of a request is over, which is not in flight any more."""
        ...

    def lost(self, entry: Pending, error: PzcError) -> None:
        """The connection that a request was sent over is lost."""
        ...

    def crowded(self, pipeline: Pipeline) -> None:
        """Many requests are in flight to one peer."""
        ...

    def stays(self, peer: Peer, needed: Callable[[], float]) -> None:
        """Show a peer that whoever asks is alive while something is unanswered; see `Heartbeat.watch`."""
        ...


class Pipeline:
    """Requests to one peer.

    Args:
        owner: whose they are.
        peer: who is asked.
        sealed: makes and reads the messages.
    """

    def __init__(self, owner: Owner, peer: Peer, sealed: Sealed) -> None:
        self.peer = peer
        self.used = time.monotonic()
        self._owner = owner
        self._loop = owner.loop
        self._sealed = sealed
        self._all = owner.pending
        self._pending: dict[str, Pending] = {}
        self._waiting: deque[tuple[Pending, list[Buffer], UnixWay | None]] = deque()
        self._order = threading.Lock()
        self._awake = self._alive = self._asked_over = False
        self._look_at = math.inf
        self._alarm: Timer | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._unix: UnixWay | None = None
        self._told = -math.inf
        self.closed = False

    def submit(self, entry: Pending) -> None:
        """Send a request soon; any thread, never blocks.

        Raises:
            SerializeError, LocalProtocolError: when it cannot be sent.
            AgentClosed: when the agent was stopped.
        """
        if len(self._all) >= limits.current.deferred_calls:
            entry.fail(
                LocalLimit(f"{limits.current.deferred_calls} requests of this process are already unanswered")
            )
            return
        with self._order:  # ids rise in the order of sending
            if self.closed:
                raise AgentClosed("the agent was stopped")
            unix = self._unix
            frames = self._sealed.seal(entry.content) if unix is None else unix.seal(entry.content)
            msgid = entry.msgid = str(frames[3], "ascii")
            self._all[msgid] = self._pending[msgid] = entry
            self._waiting.append((entry, frames, unix))
        if not self._awake:
            self._awake = True
            self._loop.call(self._flush)
        if entry.due < self._look_at:
            self._loop.call(partial(self._look_until, entry.due))
        if not self._asked_over and len(self._pending) >= WORTH_IT:
            self._asked_over = True
            self._owner.crowded(self)
        if not self._alive and entry.lasting:
            self._alive = True
            self._owner.stays(self.peer, self._unanswered_until)

    @property
    def empty(self) -> bool:
        """Nothing is in flight."""
        return not self._pending

    def remove(self, entry: Pending) -> bool:
        """A request is not in flight any more; False when it was not; any thread."""
        if self._pending.get(entry.msgid) is not entry or self._pending.pop(entry.msgid, None) is None:
            return False
        self._all.pop(entry.msgid, None)
        return True

    def _unanswered_until(self) -> float:
        """When the oldest unanswered request is to be shown alive; infinite for none, then asked no more."""
        for entry in self._pending.copy().values():
            if entry.lasting:
                return entry.started + UNANSWERED
        self._alive = False
        return math.inf

    # --- I/O thread ------------------------------------------------------------------------------------

    def _open(self) -> zmq.Socket[bytes]:
        socket = self._socket = new_socket(self._loop.context, zmq.DEALER)
        if self.peer.dialect == PZC00:
            # Else a request to a peer that is gone would run whenever one comes back there. Over PZC01
            # its address under the signature prevents that, and IMMEDIATE can cost a reply.
            socket.setsockopt(zmq.IMMEDIATE, 1)
        connect(socket, self.peer.endpoint)
        self._loop.register(socket, self._on_readable)
        return socket

    def _shut(self, linger: int = 0) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            self._loop.unregister(socket)
            socket.close(linger)

    def _flush(self) -> None:
        self._awake = False
        waiting = self._waiting
        if not waiting or self.closed:
            return
        while waiting:
            entry, frames, unix = waiting[0]
            if entry.msgid not in self._pending:  # over before it was sent
                waiting.popleft()
                continue
            try:
                if unix is not None:
                    unix.transmit(frames)
                else:
                    send_parts(self._socket or self._open(), (b"",), frames)
            except PzcError:  # of the Unix connection, which is over: it goes over ZeroMQ
                waiting.popleft()
                self._send_anew(entry)
                continue
            except zmq.Again:
                if self.peer.endpoint.startswith(
                    "inproc://"
                ):  # libzmq does not connect these again by itself
                    self._shut()
                self._awake = True
                self._loop.call_later(_RETRY, self._flush)
                return
            except zmq.ZMQError as exc:
                self.remove(entry)
                entry.fail(PeerLost(f"{self.peer.endpoint} cannot be sent to: {exc}"))
            waiting.popleft()
            entry.sent, entry.way = True, unix
            if not entry.answered:
                self._told = time.monotonic()
                self.remove(entry)
                entry.take(None, None)

    def _send_anew(self, entry: Pending) -> None:
        """A request that did not go over a Unix connection."""
        if not self.remove(entry):
            return
        self._unix = None
        try:
            self.submit(entry)
        except PzcError as exc:
            entry.fail(exc)

    def go_over(self, unix: UnixWay) -> None:
        """What is submitted from now on goes over a Unix connection; any thread."""
        with self._order:
            if self.closed:
                unix.close()
            else:
                self._unix = unix

    def leave_unix(self) -> None:
        """Nobody holds the peer any more: close its Unix connection, unless something is in flight."""
        with self._order:
            unix = self._unix
            if unix is None or self._pending:
                return
            self._unix, self._asked_over = None, False
        unix.close()

    def lose(self, unix: UnixWay, error: PzcError) -> None:
        """A Unix connection is over; what was sent over it may have run; any thread."""
        with self._order:
            if self._unix is unix:
                self._unix = None
        for msgid, entry in self._pending.copy().items():
            if entry.way is unix and self._pending.get(msgid) is entry:
                self._owner.lost(entry, error)

    def deliver(self, message: Message) -> None:
        """A verified reply came over a Unix connection, in the thread that receives there."""
        entry = self._pending.get(message.msgid)
        if entry is None:
            with self._order:  # perhaps it is still being submitted
                entry = self._pending.get(message.msgid)
        self._answer(message, entry)

    def _on_readable(self) -> None:
        socket = self._socket
        while socket is not None and not socket.closed and is_readable(socket):
            frames = receive_parts(socket)
            self._take(frames[1:] if frames and not frames[0] else frames)
            socket = self._socket

    def _take(self, frames: list[Buffer]) -> None:
        try:
            message = self._sealed.open(frames)
        except PzcError:
            self._owner.counters.add("replies_unexpected")
            return
        self._answer(message, self._pending.get(message.msgid))

    def _answer(self, message: Message, entry: Pending | None) -> None:
        if entry is None:
            self._owner.counters.add("replies_unexpected")
            return
        try:
            content = message.decode(writable=True)
        except BaseException as exc:
            self.remove(entry)
            entry.fail(exc)
            return
        if is_running(content):
            entry.note = content[2]
            return
        if content.__class__ is not tuple and reply_of(message, content).refusal is not None:
            self._owner.refused(entry, message, content)
            return
        self.remove(entry)
        self.used = time.monotonic()
        entry.take(message, content)

    def _look_until(self, due: float) -> None:
        if due < self._look_at:
            self._look_at = due
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_later(max(0.0, due - time.monotonic()), self._look)

    def _look(self) -> None:
        now = time.monotonic()
        self._look_at = nearest = math.inf
        for entry in self._pending.copy().values():
            if entry.due > now:
                nearest = min(nearest, entry.due)
            elif self.remove(entry):
                self._owner.expired(entry)
        if nearest < math.inf:
            self._look_until(nearest)

    def close(self, error: Callable[[], BaseException]) -> None:
        """Fail what is in flight, and close the socket; I/O thread."""
        with self._order:
            self.closed = True
            unix, self._unix = self._unix, None
        if unix is not None:
            unix.close()
        recent = time.monotonic() - self._told < LINGER_MS / 1000
        self._shut(LINGER_MS if recent else 0)  # libzmq goes on delivering what nobody waits for
        for entry in self._pending.copy().values():
            if self.remove(entry):
                entry.fail(error())
        if self._alarm is not None:
            self._alarm.cancel()
