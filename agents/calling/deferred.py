"""Deferred requests: many in flight to one peer over one DEALER of the I/O thread.

::

    state       event                                        next
    unsent      peer connected, at the latest by deadline    waiting
    waiting     reply                                        done
    waiting     refusal by an agent that replaced the peer   unsent, after a handshake
    any         deadline (CallTimeout), agent stopped        done

A bundle of calls is one such request that may be answered more than once (see `bundles`).
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import zmq

from ...protocol import limits
from ...protocol.codec import Envelope
from ...protocol.errors import AgentClosed, CallTimeout, PeerLost, PzcError
from ...protocol.frames import PZC00, Buffer
from ..counters import Counters
from ..sockets.endpoints import connect, new_socket
from ..sockets.loop import Loop, Timer
from ..sockets.parts import is_readable, receive_parts, send_parts
from ..sockets.watch import LINGER_MS
from ..wire import Protocol
from .bundles import Bundle, Hold, Outbox
from .peers import Peer
from .reply import Reply, accepted
from .requests import Requester

_RETRY = 0.005
"""Seconds after which a request is tried again when its peer is not connected yet."""


@dataclass
class _Pending:
    """One request; ``started`` and ``deadline`` in monotonic seconds."""

    peer: Peer
    content: object
    future: Future[Any]
    started: float
    deadline: float
    frames: list[Buffer]
    msgid: str
    timer: Timer | None = None
    repeated: bool = False
    bundle: Bundle | None = None
    answered: bool = True


@dataclass
class _Line:
    """The socket to one peer, what it could not take yet, in order, and when it took what has no answer."""

    socket: zmq.Socket[bytes]
    unsent: deque[_Pending] = field(default_factory=deque)
    told: float = -math.inf

    def close(self) -> None:
        """Close it; libzmq goes on delivering what nobody waits for."""
        recent = time.monotonic() - self.told < LINGER_MS / 1000
        self.socket.close(LINGER_MS if recent else 0)


class Deferred:
    """Requests whose replies complete futures.

    Args:
        loop: owner of the sockets.
        requester: formats requests and reads replies.
        counters: where oddities are counted.

    Attributes:
        bundled: calls in bundles that are not over.
    """

    def __init__(self, loop: Loop, requester: Requester, counters: Counters) -> None:
        self._loop = loop
        self._requester = requester
        self._counters = counters
        self._lines: dict[tuple[str, str], _Line] = {}
        self._pending: dict[str, _Pending] = {}
        self._going_on: dict[str, _Pending] = {}
        self._outboxes: weakref.WeakValueDictionary[tuple[str, ...], Outbox] = weakref.WeakValueDictionary()
        self._closed = False
        self.bundled = 0

    def submit(self, peer: Peer, content: object, timeout: float, *, answered: bool = True) -> Future[Any]:
        """Send content to a known peer; any thread.

        The future gets the reply, or CallTimeout after ``timeout`` seconds, or the
        error that `Requester.request` would raise. Content that says of itself that it wants no answer,
        with ``answered=False``, gives None once its socket took it, behind all that was submitted before.

        Raises:
            SerializeError: when the content cannot be expressed.
        """
        entry = self._entry(peer, content, timeout, None)
        entry.answered = answered
        entry.future.__dict__["msgid"] = entry.msgid
        begin = partial(self._guarded, entry, self._begin)
        outbox = self._outboxes.get(_key(peer)) if self._outboxes else None
        if outbox is None:
            self._loop.call(begin)
        else:
            outbox.put_alone(begin)
        return entry.future

    def _entry(self, peer: Peer, content: object, timeout: float, bundle: Bundle | None) -> _Pending:
        frames, msgid = self._requester.encode(peer, content)
        now = time.monotonic()
        return _Pending(peer, content, Future(), now, now + timeout, frames, msgid, bundle=bundle)

    def send_bundle(self, peer: Peer, content: object, timeout: float, bundle: Bundle) -> None:
        """Send a bundle, which is told every answer to it; I/O thread.

        Raises:
            SerializeError, AgentClosed, PeerLost: when it was not sent.
        """
        entry = self._entry(peer, content, timeout, bundle)
        entry.future.add_done_callback(partial(_fail_bundle, bundle))
        self._begin(entry)

    def outbox(self, peer: Peer, protocol: Protocol, hold: Hold) -> Outbox | None:
        """Where calls gather on their way to a peer; None when it takes no bundles."""
        if peer.dialect == PZC00 or not peer.details.get("bundles"):
            return None
        found = self._outboxes.get(_key(peer))
        if found is None:
            made = Outbox(self, self._loop, protocol, peer, hold)
            found = self._outboxes.setdefault(_key(peer), made)
        return found

    def forget(self, peer: Peer) -> None:
        """Calls to a peer were not answered in time: shake hands anew; expect nothing of ended bundles."""
        self._requester.forget(peer.endpoint)
        self._going_on = {
            msgid: entry for msgid, entry in self._going_on.items() if entry.bundle and entry.bundle.left
        }

    def _guarded(self, entry: _Pending, work: Callable[[_Pending], None]) -> None:
        try:
            work(entry)
        except Exception as exc:
            self._fail(entry, exc)

    def _fail(self, entry: _Pending, error: Exception) -> None:
        self._drop(entry)
        _settle(entry.future, error=error)

    def _begin(self, entry: _Pending) -> None:
        if self._closed:
            raise AgentClosed("the agent was stopped")
        if len(self._pending) >= limits.current.deferred_calls:
            raise PeerLost(f"{limits.current.deferred_calls} deferred requests are already unanswered")
        self._pending[entry.msgid] = entry
        left = max(0.0, entry.deadline - time.monotonic())
        entry.timer = self._loop.call_later(left, partial(self._expire, entry))
        key = (entry.peer.endpoint, entry.peer.dialect)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(self._open(entry.peer))
        line.unsent.append(entry)
        if len(line.unsent) == 1:
            self._send(line)

    def _open(self, peer: Peer) -> zmq.Socket[bytes]:
        socket = new_socket(self._loop.context, zmq.DEALER)
        if peer.dialect == PZC00:
            # Else a request to a peer that is gone would run whenever one comes back there. Over PZC01
            # its address under the signature prevents that, and IMMEDIATE can cost a reply.
            socket.setsockopt(zmq.IMMEDIATE, 1)
        connect(socket, peer.endpoint)
        self._loop.register(socket, partial(self._on_readable, peer, socket))
        return socket

    def _send(self, line: _Line) -> None:
        while line.unsent and not self._closed:
            entry = line.unsent[0]
            if self._pending.get(entry.msgid) is entry:
                try:
                    send_parts(line.socket, (b"",), entry.frames)
                except zmq.Again:
                    self._reopen(line, entry.peer)
                    self._loop.call_later(_RETRY, partial(self._send, line))
                    return
                except zmq.ZMQError as exc:
                    self._fail(entry, PeerLost(f"{entry.peer.endpoint} cannot be sent to: {exc}"))
                if not entry.answered:
                    line.told = time.monotonic()
                    self._drop(entry)
                    _settle(entry.future)
            line.unsent.popleft()

    def _reopen(self, line: _Line, peer: Peer) -> None:
        if peer.endpoint.startswith("inproc://"):  # libzmq does not connect these again by itself
            self._loop.unregister(line.socket)
            line.socket.close(0)
            line.socket = self._open(peer)

    def _drop(self, entry: _Pending) -> None:
        if self._pending.get(entry.msgid) is entry:
            del self._pending[entry.msgid]
        if entry.timer is not None:
            entry.timer.cancel()

    def _expire(self, entry: _Pending) -> None:
        endpoint, seconds = entry.peer.endpoint, entry.deadline - entry.started
        self._requester.forget(endpoint)
        self._fail(entry, CallTimeout(f"no reply from {endpoint} within {seconds:g} s"))

    def _on_readable(self, peer: Peer, socket: zmq.Socket[bytes]) -> None:
        while not socket.closed and is_readable(socket):
            frames = receive_parts(socket)
            self._take(peer, frames[1:] if frames and not frames[0] else frames)

    def _take(self, peer: Peer, frames: list[Buffer]) -> None:
        try:
            envelope = self._requester.open_reply(peer, frames)
        except PzcError:
            self._counters.add("replies_unexpected")
            return
        entry = self._pending.get(envelope.msgid)
        if entry is None:
            self._take_more(envelope)
            return
        self._guarded(entry, partial(self._finish, envelope))

    def _take_more(self, envelope: Envelope) -> None:
        msgid = envelope.msgid
        entry = self._going_on.get(msgid)
        bundle = None if entry is None else entry.bundle
        if entry is not None and bundle is not None:
            bundle.take(accepted(self._requester.read_reply(entry.peer, envelope)))
            if not bundle.left:
                del self._going_on[msgid]
            return
        for entry in [*self._pending.values(), *self._going_on.values()]:
            if entry.bundle is not None and entry.bundle.has(msgid):
                entry.bundle.take_alone(msgid, self._requester.read_reply(entry.peer, envelope))
                if not entry.bundle.left:  # no other answer will come
                    self._drop(entry)
                    self._going_on.pop(entry.msgid, None)
                return
        self._counters.add("replies_unexpected")

    def _finish(self, envelope: Envelope, entry: _Pending) -> None:
        reply = self._requester.read_reply(entry.peer, envelope)
        if reply.refusal is None or (entry.repeated and reply.sender == entry.peer.agent_id):
            accepted(reply)
            self._drop(entry)
            _settle(entry.future, result=reply)
            if entry.bundle is not None:
                entry.bundle.take(reply)
                if entry.bundle.left:
                    self._going_on[envelope.msgid] = entry
            return
        entry.repeated = True
        threading.Thread(target=self._repeat, args=(entry, reply), name="pzc-meet", daemon=True).start()

    def _repeat(self, entry: _Pending, reply: Reply) -> None:
        try:
            requester = self._requester
            peer = requester.after_refusal(entry.peer, reply, entry.started, entry.deadline)
            frames, msgid = requester.encode(peer, entry.content)
        except Exception as exc:
            self._loop.call(partial(self._fail, entry, exc))
            return
        again = replace(entry, peer=peer, frames=frames, msgid=msgid)
        self._loop.call(partial(self._drop, entry))
        self._loop.call(partial(self._guarded, again, self._begin))

    def close(self) -> None:
        """Fail what is pending with AgentClosed and close the sockets; I/O thread."""
        self._closed = True
        for line in self._lines.values():
            self._loop.unregister(line.socket)
            line.close()
        self._lines.clear()
        for entry in list(self._pending.values()):
            self._fail(entry, AgentClosed("the agent was stopped"))
        for outbox in list(self._outboxes.values()):
            outbox.close()
        self._going_on.clear()


def _key(peer: Peer) -> tuple[str, ...]:
    return peer.endpoint, peer.agent_id, peer.key_id


def _fail_bundle(bundle: Bundle, answer: Future[Any]) -> None:
    error = answer.exception()
    if error is not None:
        bundle.fail(error)


def _settle(future: Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error.with_traceback(None))  # else the two hold each other
    else:
        future.set_result(result)
