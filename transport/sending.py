"""Sending: a PUB or XPUB socket on which any thread sends, and from which the I/O thread receives.

libzmq lets any thread use a socket, but one at a time. Nobody waits long for another one here, since a
finalizer may run in the middle of anything, and publish, or wait for something::

    event                                what happens
    send, nobody uses the socket         it is sent
    send, somebody does                  whoever that is sends it next, but at most `TURN` in one go
    `TURN` sent, more waits              the next one who sends, or the I/O thread, sends that
    send, `send_waiting` wait already    waits for the socket, at most `send_patience` s, and sends them
    the descriptor becomes readable      the I/O thread is told of news
    send, last look `send_look` s ago    looked: when there is news, the I/O thread is told
    send, else                           `send_tail` s later the I/O thread is told, once for all
    receive, somebody uses the socket    whoever that is receives, and tells the I/O thread

To ask the socket whether something has come would be to use it as well, so the I/O thread waits for its
descriptor, which tells of news only until somebody uses the socket. Hence the looks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import zmq

from ..protocol.frames import Buffer
from .loop import STOP_TIMEOUT, Loop
from .parts import NOW, is_readable, send_part, send_parts

_SEND_TAIL = 0.02
"""Seconds after which news is seen that came with the last message of a burst."""

_SEND_LOOK = 0.001
"""Seconds after which whoever sends looks for news."""

_SEND_WAITING = 1000
"""Messages from which on a sender waits until they went."""

_SEND_PATIENCE = 1.0
"""Seconds that a sender waits at most; beyond them more than `send_waiting` may wait."""


TURN = 64
"""Messages that somebody sends in one go, so that nobody is kept by what others publish."""

KEPT = 256
"""Messages that wait for the I/O thread; more stay in the socket."""

M = TypeVar("M")


class Sending(Generic[M]):
    """The one owner of such a socket, but for closing it.

    Args:
        loop: whose context the socket is of.
        socket: XPUB or PUB.
        on_news: called in the I/O thread when something may have come; it has to `receive` until nothing is
            left.
        on_refused: called for each message that libzmq did not take, in whatever thread sent it.
        frames: makes five frames of each message of a turn; None for what is not sent after all.

    Attributes:
        waiting: messages that nobody has sent yet, for others to count.
    """

    def __init__(
        self,
        loop: Loop,
        socket: zmq.Socket[bytes],
        on_news: Callable[[], object],
        on_refused: Callable[[zmq.ZMQError], object],
        frames: Callable[[Sequence[M]], Sequence[Sequence[Buffer] | None]],
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._on_news = on_news
        self._on_refused = on_refused
        self._frames = frames
        self._using = threading.Lock()  # of the socket
        self._user = 0  # the thread that had it last, which never waits for itself
        self.waiting: deque[M] = deque()
        self._descriptor = -1
        self._received: deque[list[bytes]] = deque()  # for the I/O thread
        self._looked = 0.0
        self._armed = self._asked = self._closed = False

    def start(self) -> None:
        """Tell of news from now on; I/O thread."""
        self._descriptor = self._socket.fileno()
        self._loop.register(self._descriptor, self._on_news)
        self._loop.call(self._on_news)

    def close(self) -> None:
        """Send what waits, and nothing more; the socket can be closed then. I/O thread."""
        if not self._closed and self._using.acquire(timeout=STOP_TIMEOUT):  # which nobody gets again
            self._closed = True  # first: nobody is told that it was sent of what comes behind the last one
            while self.waiting:
                self._send_some(len(self.waiting))
        self._closed = True
        if self._descriptor >= 0:
            self._loop.unregister(self._descriptor)
            self._descriptor = -1

    def send(self, message: M, now: float) -> bool:
        """Send a message behind all that were given here before; any thread.

        Args:
            message: a large content must not be changed until it went.
            now: monotonic seconds.

        Returns:
            False after `close`: it may not have been sent.
        """
        self.add(message)
        self.flush(now)
        return not self._closed

    def add(self, message: M) -> bool:
        """As `send`, with the next `flush`."""
        self.waiting.append(message)
        return not self._closed

    def flush(self, now: float) -> None:
        """Send what waits; any thread."""
        self._send_waiting(now, len(self.waiting) > _SEND_WAITING)

    def _send_waiting(self, now: float, patient: bool = False) -> None:
        waiting, left = self.waiting, TURN
        # In this order: what comes while it is used is seen here, or its sender sees that it is free.
        while waiting and left > 0 and self._use(patient):
            try:
                while waiting and left > 0:
                    left -= self._send_some(left)
                self._look(now)
            except (
                BaseException
            ):  # such as KeyboardInterrupt: what others gave does not wait for the next one
                self._loop.call(self._send_rest)
                raise
            finally:
                self._using.release()
        if waiting and left <= 0:
            self._loop.call(self._send_rest)
        if self._asked:
            self._asked = False
            self._loop.call(self._on_news)

    def _use(self, patient: bool) -> bool:
        """Get the socket, which is to be released; False when somebody else uses it."""
        me = threading.get_ident()
        wait = patient and not self._closed and self._user != me
        if not self._using.acquire(timeout=_SEND_PATIENCE if wait else 0):
            return False
        self._user = me
        return True

    def _send_rest(self) -> None:
        self._send_waiting(self._looked)

    def _send_some(self, most: int) -> int:
        """Send the first ones that wait; how many."""
        waiting, socket = self.waiting, self._socket
        # As long as they wait, none of them is lost; a finalizer may add others meanwhile.
        made = self._frames([waiting[at] for at in range(min(most, len(waiting)))])
        for frames in made:
            waiting.popleft()
            if frames is None:
                continue
            try:
                send_parts(socket, (), frames)
            except zmq.ZMQError as exc:  # it may be of another thread than this one
                self._on_refused(exc)
            except BaseException:  # what was not sent must not join the next message
                send_part(socket, b"", NOW)
                raise
        return len(made)

    def _look(self, now: float) -> None:
        if self._asked or now - self._looked >= _SEND_LOOK:
            self._looked, self._asked = now, False
            if is_readable(self._socket):
                self._fetch()
                self._loop.call(self._on_news)
        elif not self._armed:
            self._armed = True
            self._loop.call_later(_SEND_TAIL, self._look_late)

    def _fetch(self) -> None:
        """Receive for the I/O thread, which might not find the socket unused for long."""
        for _ in range(KEPT - len(self._received)):
            try:
                self._received.append(self._socket.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return

    def _look_late(self) -> None:
        self._armed = False
        self._on_news()

    def receive(self) -> list[bytes] | None:
        """What has come, or None when there is nothing more now; I/O thread."""
        if self._received:
            return self._received.popleft()
        self._asked = True  # before the attempt: whoever uses the socket looks afterwards
        if not self._use(False):
            return None
        self._asked = False
        try:
            if not self._received:
                self._received.append(self._socket.recv_multipart(zmq.NOBLOCK))
            return self._received.popleft()
        except zmq.Again:
            return None
        finally:
            self._using.release()
            self._send_waiting(self._looked)
