"""DealerSocket: a DEALER socket in the REQ role, one user at a time.

A call sends and waits on its socket in its own thread, and is alone with it. libzmq ends the process when
two threads use a socket at once. So whoever uses it holds it, and `close` elsewhere only tells it so::

    state     event                           next
    free      send, receive, idle             held, until that is over
    free      close                           closed, the socket with it
    held      close by another thread         ending: the user sees it within `_SLICE_MS`, and closes it
    ending    the user is done                closed, the socket with it
"""

from __future__ import annotations

import logging
import math
import select
import threading
import time
from collections.abc import Sequence

import zmq

from ..protocol import limits
from ..protocol.errors import AgentClosed, CallTimeout, LocalProtocolError, PeerLost
from ..protocol.frames import Buffer
from .endpoints import (
    connect,
    is_loopback,
    is_wildcard,
    new_monitor,
    new_socket,
    receive_event,
    stay_in_cache,
)
from .parts import MORE, NOW, WITHOUT_COPY, send_part, send_parts
from .timers import LATE

logger = logging.getLogger("pzc.requests")

_SLICE_MS = 100
"""A waiting call looks at most this many milliseconds later whether its agent was stopped, its peer lost."""

_QUICK_MS = 5 if hasattr(select, "poll") else _SLICE_MS
"""So long it waits within libzmq, which is quicker, and where each signal has the wait begin anew."""


TOLD_AFTER, TOLD_FOR = 1.0, 2.5
"""Seconds without anybody there after which that is told, when so many are left to wait."""

_WATCHED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)  # fmt: skip
_WHY: dict[int, str] = {
    zmq.EVENT_CLOSED: "its machine refuses connections, or there is no way to it; is the agent running, "
    "and is that its port?",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "something else than an agent is there, or one that is suspended, "
    "as by Ctrl-Z; is that its port?",
    zmq.EVENT_DISCONNECTED: "whoever accepts connections there ends them at once; is that an agent's port?",
}
"""What the first event of a try that failed tells."""


class DealerSocket:
    """One DEALER socket speaking the REQ envelope to one endpoint; a `Transport`. Any thread may close it.

    libzmq's IMMEDIATE, which never queues for a peer that is away, is not used: it also drops a reply
    that arrived just before its connection ended. What is queued goes with the socket, at the latest
    when the call ends; the socket's monitor tells whether anybody was there, and whether the connection
    broke during the call.

    Raises:
        PeerLost: when no descriptor is left for a socket, or nobody can be at such an endpoint.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self.endpoint = endpoint
        self._socket = new_socket(context, zmq.DEALER)
        self._monitor = new_monitor(self._socket, _WATCHED)
        self._there = endpoint.startswith("inproc://")  # which tells nothing
        self._met = self._there
        self._why, self._failing = "", False
        self._broke = self._open = self._released = False
        self._held = threading.Lock()
        self._wait_ms = -1
        # Of their descriptors, which tell of a change since the monitor was last looked at, and cost less.
        self._signals: select.poll | None = None
        self._polled = [(self._socket, zmq.POLLIN), (self._monitor, zmq.POLLIN)]
        try:
            stay_in_cache(self._socket, endpoint)
            connect(self._socket, endpoint)
            self._open = True
        except zmq.ZMQError as exc:
            why = zmq.strerror(exc.errno or 0).lower()
            if is_wildcard(endpoint):
                why = "an agent binds there; give the address of its machine, such as tcp://127.0.0.1:5555"
            raise PeerLost(f"{endpoint} cannot be reached: {why}") from exc
        finally:
            if not self._open:
                self._release()

    def send(self, frames: Sequence[Buffer], deadline: float) -> None:
        """Send now, or as soon as the peer is connected; a large content must not be changed until it went.

        Raises:
            LocalProtocolError: when they are not five.
            PeerLost, CallTimeout: when too much waits for the peer until the deadline (monotonic seconds).
            AgentClosed: after `close`.
        """
        if len(frames) != 5:
            raise LocalProtocolError(f"a message has 5 frames, not {len(frames)}")
        if len(frames[2]) > limits.current.frame_bytes:
            raise LocalProtocolError(
                f"a content of {len(frames[2])} bytes is more than goes over TCP, "
                f"{limits.current.frame_bytes}: send parts, or raise frame_bytes in [limits] on both sides"
            )
        if not self._held.acquire(blocking=False):
            raise self._elsewhere()
        try:
            self._broke = False
            while self._open:
                try:
                    send_part(self._socket, b"", MORE)  # behind the first part, the others have room
                    send_parts(self._socket, (), frames)
                    return
                except zmq.Again:
                    self._await_room(deadline)
                except zmq.ContextTerminated:
                    raise _stopped() from None
        finally:
            self._held.release()
            if not self._open:
                self.close()
        raise self._elsewhere()

    def _await_room(self, deadline: float) -> None:
        left = (deadline - time.monotonic()) * 1000
        if left <= 0:
            self._look()
            if not self._there:
                raise self._lost()
            raise CallTimeout(f"{self.endpoint} takes no more messages; this one was not sent")
        self._socket.poll(math.ceil(min(left, _SLICE_MS)), zmq.POLLOUT)

    def receive(self, deadline: float, closed: threading.Event | None = None) -> list[Buffer]:
        """The next message: five frames, unless the other side sent another number of them.

        Raises:
            PeerLost: when the connection broke since the last `send`, or nobody was there by the deadline
                (monotonic seconds); a reply that had arrived is returned all the same.
            CallTimeout: when none came, and somebody is there.
            AgentClosed: when ``closed`` was set meanwhile, or after `close`.
        """
        if not self._held.acquire(blocking=False):
            raise self._elsewhere()
        try:
            return self._receive(deadline, closed)
        finally:
            self._held.release()
            if not self._open:
                self.close()

    def _receive(self, deadline: float, closed: threading.Event | None) -> list[Buffer]:
        tell_at = math.inf if self._met else time.monotonic() + TOLD_AFTER
        while self._open and not (closed is not None and closed.is_set()):
            left = (deadline - time.monotonic()) * 1000
            wait = _QUICK_MS if left >= _QUICK_MS else max(0, math.ceil(left))
            if wait != self._wait_ms:
                self._socket.setsockopt(zmq.RCVTIMEO, wait)
                self._wait_ms = wait
            try:
                return self._read(0)
            except zmq.Again:
                self._look()
            except zmq.ContextTerminated:
                break
            if self._broke or (left <= 0 and not self._there):
                try:  # what arrived before the news of its sender's end
                    return self._read(NOW)
                except zmq.Again:
                    raise self._lost() from None
            if tell_at <= time.monotonic():
                tell_at = math.inf
                if not self._met and left > TOLD_FOR * 1000:
                    logger.warning("waiting for %s: %s", self.endpoint, self._reason())
            if left <= 0:
                raise CallTimeout(f"no reply from {self.endpoint} in time; the call may or may not have run")
            self._await_news(min(left, _SLICE_MS) - wait)
            if time.monotonic() > deadline + LATE:
                deadline = time.monotonic() + LATE
        raise _stopped()

    def _await_news(self, wait_ms: float) -> None:
        """Wait for something to come, or to change; behind a receive that found nothing."""
        if wait_ms > 0 and (signals := self._watched()) is not None:
            signals.poll(wait_ms)

    def _watched(self) -> select.poll | None:
        if self._signals is None and hasattr(select, "poll"):
            self._signals = select.poll()
            for socket, _ in self._polled:
                self._signals.register(socket.fileno(), select.POLLIN)
        return self._signals

    def _read(self, flags: int) -> list[Buffer]:
        receive = self._socket.recv
        parts: list[Buffer] = [receive(flags)]  # the delimiter of the envelope
        try:
            parts += (receive(NOW), receive(NOW))
            content = receive(NOW, False)
            parts.append(content.bytes if len(content) < WITHOUT_COPY else content.buffer)
            parts.append(receive(NOW))
            last = receive(NOW, False)
            parts.append(last.bytes)
            while last.more:
                last = receive(NOW, False)
                parts.append(last.bytes)
        except zmq.Again:  # fewer parts than a message has; whoever reads it will say so
            pass
        return parts if parts[0] else parts[1:]

    def _look(self) -> None:
        """Take in what the monitor has told."""
        while self._monitor.poll(0):
            event = receive_event(self._monitor).event
            there = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if not (self._there or there or self._failing):
                self._why = _WHY.get(event, "")
            self._failing = not there and event != zmq.EVENT_CONNECT_RETRIED
            self._broke = self._broke or (self._there and not there)
            self._there = there
            self._met = self._met or there

    def _lost(self) -> PeerLost:
        if self._met:
            return PeerLost(f"{self.endpoint} was lost during the call, which may or may not have run")
        error = PeerLost(f"{self.endpoint} cannot be reached: {self._reason()}")
        error.absent = bool(self._why)
        return error

    def _reason(self) -> str:
        if self._why == _WHY[zmq.EVENT_CLOSED] and is_loopback(self.endpoint):
            return "nothing listens at that port of this machine; is the agent running?"
        return self._why or (
            "nobody answers there; is its machine on, does a firewall let it through, or is the agent "
            "suspended, as by Ctrl-Z?"
        )

    def idle(self) -> bool:
        """False when its peer has gone, even if somebody is there again, or sent what nobody asked for.

        After it has gone a new socket connects sooner, and another agent may be there.
        """
        if not self._held.acquire(blocking=False):
            return False
        try:
            if self._open and self._signals is not None and not self._signals.poll(0):
                return self._stands()
            return self._open and self._is_idle()
        finally:
            self._held.release()
            if not self._open:
                self.close()

    def _is_idle(self) -> bool:
        self._watched()
        if zmq.zmq_poll(self._polled, 0):
            self._look()
            return self._stands() and not self._socket.poll(0, zmq.POLLIN)
        return self._stands()

    def _stands(self) -> bool:
        return self._there and not self._broke

    def close(self) -> None:
        """Close the socket, or have whoever uses it do so; what was not sent is forgotten. Any thread."""
        self._open = False
        if self._held.acquire(blocking=False):
            try:
                if not self._released:
                    self._released = True
                    self._release()
            finally:
                self._held.release()

    def _elsewhere(self) -> AgentClosed:
        """Whoever has it closes it just now, or was left behind when this process was forked."""
        return AgentClosed(f"the connection to {self.endpoint} was closed here")

    def _release(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)


def _stopped() -> AgentClosed:
    return AgentClosed("the agent was stopped while a call was waiting")
