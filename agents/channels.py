"""Channels: DEALER sockets in the REQ role, one user at a time.

A call checks a channel out, sends and waits on it in its own thread, and returns it; so replies
cannot be stolen, and a timeout costs that one socket, never the peer's other calls. This is the
fast path that DESIGN allows: whoever has the channel holds its lock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

import zmq
from zmq.utils.monitor import recv_monitor_message

from ..protocol.errors import AgentClosed, CallTimeout, PeerLost
from ..protocol.frames import Buffer
from .endpoints import new_socket

MAX_IDLE = 8
"""Idle channels kept per peer."""

_SLICE_MS = 200
"""A waiting call looks at most this many milliseconds later whether its agent was stopped."""


class Channel:
    """One DEALER socket speaking the REQ envelope to one endpoint.

    libzmq's IMMEDIATE, which never queues for a peer that is away, is not used: it also drops a reply
    that arrived just before its connection ended. What is queued goes with the channel, at the latest
    when the call ends; the socket's monitor tells whether anybody was there.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self.endpoint = endpoint
        self._socket = new_socket(context, zmq.DEALER)
        self._monitor = self._socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        self._there = endpoint.startswith("inproc://")  # which tells nothing
        self._met = self._there
        try:
            self._socket.connect(endpoint)
        except BaseException:
            self.close()
            raise

    def connected(self) -> bool:
        """False when its peer has gone (a new channel connects sooner), or sent what nobody asked for."""
        return self._is_there() and not self._socket.poll(0, zmq.POLLIN)

    def _is_there(self) -> bool:
        while self._monitor.poll(0):
            self._there = recv_monitor_message(self._monitor)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
            self._met = self._met or self._there
        return self._there

    def send(self, frames: Sequence[Buffer]) -> None:
        """Send now, or as soon as the peer is connected.

        Raises:
            PeerLost: when it cannot be sent at all.
        """
        try:
            self._socket.send_multipart((b"", *frames), zmq.NOBLOCK)
        except zmq.Again as exc:
            raise self._lost() from exc

    def receive(self, deadline: float, closed: threading.Event) -> list[bytes]:
        """The next five frames.

        Raises:
            PeerLost: when none came by the deadline (monotonic seconds), and nobody is there.
            CallTimeout: when none came, and somebody is.
            AgentClosed: when the agent was stopped meanwhile.
        """
        while not closed.is_set():
            left = (deadline - time.monotonic()) * 1000
            if left <= 0:
                if not self._is_there():
                    raise self._lost()
                raise CallTimeout(f"no reply from {self.endpoint} in time; the call may or may not have run")
            if self._socket.poll(math.ceil(min(left, _SLICE_MS)), zmq.POLLIN):
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
                return frames[1:] if frames and not frames[0] else frames
        raise AgentClosed("the agent was stopped while a call was waiting")

    def _lost(self) -> PeerLost:
        if self._met:
            return PeerLost(f"{self.endpoint} was lost during the call, which may or may not have run")
        return PeerLost(f"{self.endpoint} cannot be reached: nobody answers there; is the agent running?")

    def close(self) -> None:
        """Close the socket; what was not sent is forgotten."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)


class Channels:
    """All channels of one agent, safe from any thread."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._context = context
        self._idle: dict[str, list[Channel]] = {}
        self._changed = threading.Condition()
        self._in_use = 0
        self.closed = threading.Event()

    def take(self, endpoint: str) -> Channel:
        """An idle or new channel; give it back with `give` or `discard`.

        Raises:
            AgentClosed: after `close`.
        """
        with self._changed:
            if self.closed.is_set():
                raise AgentClosed("the agent was stopped")
            self._in_use += 1
            idle = self._idle.get(endpoint, [])
            while idle:
                channel = idle.pop()
                if channel.connected():
                    return channel
                channel.close()
        try:
            return Channel(self._context, endpoint)
        except BaseException:
            self._returned()
            raise

    def give(self, channel: Channel) -> None:
        """Return a channel on which nothing is outstanding."""
        with self._changed:
            idle = self._idle.setdefault(channel.endpoint, [])
            # Over inproc nothing tells that the peer was replaced, and a new channel costs little.
            lasting = not channel.endpoint.startswith("inproc://")
            keep = lasting and len(idle) < MAX_IDLE and not self.closed.is_set()
            if keep:
                idle.append(channel)
        if not keep:
            channel.close()
        self._returned()

    def discard(self, channel: Channel) -> None:
        """Close a channel whose reply never came."""
        channel.close()
        self._returned()

    def forget(self, endpoint: str) -> None:
        """Close the idle channels of an endpoint."""
        with self._changed:
            idle = self._idle.pop(endpoint, [])
        for channel in idle:
            channel.close()

    def _returned(self) -> None:
        with self._changed:
            self._in_use -= 1
            self._changed.notify_all()

    def close(self, timeout: float = 2.0) -> None:
        """Refuse new calls, end waiting ones with AgentClosed, close every socket."""
        self.closed.set()
        with self._changed:
            self._changed.wait_for(lambda: self._in_use == 0, timeout)
            idle, self._idle = self._idle, {}
        for channels in idle.values():
            for channel in channels:
                channel.close()
