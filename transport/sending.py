"""Sending: a PUB or XPUB socket of the I/O thread, for which any thread leaves messages.

Whoever leaves more than `WAITING` waits until they went, so that nobody publishes faster than is sent. A
finalizer may run in the middle of anything and leave a message, so no lock is taken here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import zmq

from ..protocol.errors import AgentClosed, CallTimeout
from ..protocol.frames import Buffer
from .loop import Loop
from .parts import send_parts

WAITING = 1000
"""Messages that wait; whoever leaves more waits until they went."""

TURN = 64
"""Messages that are sent in one go, so that other sockets have their turn."""

M = TypeVar("M")


class Sending(Generic[M]):
    """What waits for such a socket.

    Args:
        loop: owner of the socket.
        socket: XPUB or PUB.
        on_refused: called for each message that libzmq did not take.
        frames: makes five frames of each message of a turn; None for what is not sent after all.
    """

    def __init__(
        self,
        loop: Loop,
        socket: zmq.Socket[bytes],
        on_refused: Callable[[zmq.ZMQError], object],
        frames: Callable[[Sequence[M]], Sequence[Sequence[Buffer] | None]],
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._on_refused = on_refused
        self._frames = frames
        self._waiting: deque[M] = deque()
        self._called = self._closed = False

    def add(self, message: M) -> bool:
        """Have a message sent with the next `flush`; a large content must not be changed until it went.

        Returns:
            False after `close`: it may not be sent.
        """
        self._waiting.append(message)
        return not self._closed

    def flush(self) -> None:
        """Have sent what waits; any thread."""
        if len(self._waiting) > WAITING and not self._loop.in_thread():
            with suppress(CallTimeout, AgentClosed):
                self._loop.run(self._send)
        elif not self._called:
            self._called = True
            self._loop.call(self._send)

    def _send(self) -> None:
        self._called = False
        self._send_some(TURN)
        if self._waiting and not self._called:
            self._called = True
            self._loop.call(self._send)

    def _send_some(self, most: int) -> None:
        waiting, socket = self._waiting, self._socket
        some = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        for frames in self._frames(some):
            if frames is not None:
                try:
                    send_parts(socket, (), frames)
                except zmq.ZMQError as exc:
                    self._on_refused(exc)

    def send_all(self) -> None:
        """Send what waits; I/O thread."""
        while self._waiting:
            self._send_some(len(self._waiting))

    def close(self) -> None:
        """Send what waits, and nothing more; the socket can be closed then. I/O thread."""
        self._closed = True  # first: nobody is told that it was sent of what comes behind the last one
        self.send_all()
