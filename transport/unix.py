"""One end of a Unix socket whose operations end by a deadline, and which any thread may close."""

from __future__ import annotations

import contextlib
import math
import select
import socket as sockets
import struct
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TypeVar

from ..protocol.errors import AgentClosed, CallTimeout, PeerLost
from ..protocol.frames import Buffer

SLICE = 0.2
"""A waiting call looks at most this many seconds later whether its agent was stopped."""

QUICK = 0.003
"""A receive waits so long within the kernel at first, which makes up to 8 ms of it."""

FOREVER = math.inf
RECEIVING, SENDING = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)
# Plain numbers: to combine the members of the enumeration takes longer than to send.
NO_WAIT = int(getattr(sockets, "MSG_DONTWAIT", 0)) | int(getattr(sockets, "MSG_NOSIGNAL", 0))

T = TypeVar("T")


class UnixEnd:
    """A connected, blocking socket; what waits on it is counted by deadline, not by operation.

    A receive that waits within the kernel is quicker than a poll, and begins its wait anew after each
    signal: so it waits there for `QUICK` at first, and is polled from then on.

    Whoever uses the socket sets ``_sending`` or ``_receiving`` first, then looks at ``_ended``, and calls
    `_release` behind it when that is set; so its number is never closed, and then another's, during the use.

    Args:
        socket: connected, SOCK_STREAM; taken over.
        peer: whom error messages name.
    """

    def __init__(self, socket: sockets.socket, peer: str) -> None:
        socket.setblocking(True)
        socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVTIMEO, struct.pack("ll", 0, int(QUICK * 1e6)))
        self.peer = peer
        self._socket = socket
        self._sending = self._receiving = False
        self._stopped = self._ended = False

    def close(self) -> None:
        """End the connection, from any thread; what waits in another thread ends with AgentClosed."""
        self._stopped = True
        self._end()
        self._release()

    def fileno(self) -> int:
        """The socket's number; -1 when it is closed."""
        return self._socket.fileno()

    def write_now(self, parts: Sequence[Buffer], fd: int = -1) -> int:
        """Write what the kernel takes without waiting; a descriptor goes with the first byte.

        Returns:
            Bytes that were taken.

        Raises:
            PeerLost, AgentClosed: when the connection is over.
        """
        rights = [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, struct.pack("i", fd))] if fd >= 0 else ()
        self._sending = True
        try:
            if not self._ended:
                if len(parts) == 1 and not rights:
                    return self._socket.send(parts[0], NO_WAIT)
                return self._socket.sendmsg(parts, rights, NO_WAIT)
        except BlockingIOError:
            return 0
        except TimeoutError:  # as in `_wait`; what went is not known
            self._end()
            raise
        except OSError as exc:
            self._end()
            raise self.gone(SENDING) from exc
        finally:
            self._sending = False
            if self._ended:
                self._release()
        raise self.gone(SENDING)

    def untaken(self) -> bool:
        """Whether the other side has bytes to receive; False where the kernel does not tell."""
        import fcntl
        import termios

        try:
            return any(fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)))
        except (OSError, ValueError):  # it is closed
            return False

    def comes(self, deadline: float) -> bool:
        """Wait until something can be received, or the connection is over; False at the deadline."""
        self._receiving = True
        try:
            if self._ended:
                return True
            return self._ready(RECEIVING, deadline - monotonic())
        finally:
            self._receiving = False
            if self._ended:
                self._release()

    def _end(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):  # the other side was faster
            self._socket.shutdown(sockets.SHUT_RDWR)

    def _release(self) -> None:
        if not (self._sending or self._receiving):
            self._let_go()

    def _let_go(self) -> None:
        self._socket.close()

    def _ready(self, direction: int, seconds: float) -> bool:
        """Wait so long, which signals do not stretch, until the socket can be used, or is over."""
        poll = select.poll()
        poll.register(self._socket, direction)
        return bool(poll.poll(None if seconds == FOREVER else max(0.0, seconds * 1000)))

    def _wait(
        self, direction: int, attempt: Callable[[], T], deadline: float, closed: threading.Event | None = None
    ) -> T:
        """What ``attempt``, which never waits, returns once it can."""
        while not (self._ended or (closed is not None and closed.is_set())):
            try:
                return attempt()
            except BlockingIOError:
                left = deadline - monotonic()
                if left <= 0:
                    raise self.late(direction) from None
                self._ready(direction, min(left, SLICE))
            except TimeoutError:  # of a signal's handler: a Unix socket knows none
                raise
            except OSError as exc:
                raise self.gone(direction) from exc
        if self._ended:
            raise self.gone(direction)
        raise AgentClosed("the agent was stopped while a call was waiting")

    def late(self, direction: int) -> CallTimeout:
        """The error of a wait that reached its deadline."""
        if direction == SENDING:
            return CallTimeout(f"{self.peer} did not take the message in time; it did not get it whole")
        return CallTimeout(f"no reply from {self.peer} in time; the call may or may not have run")

    def gone(self, direction: int) -> AgentClosed | PeerLost:
        """The error of a connection that is over."""
        if self._stopped:
            return AgentClosed(f"the connection to {self.peer} was closed here")
        if direction == SENDING:
            return PeerLost(f"{self.peer} was lost before it got the message whole")
        return PeerLost(f"{self.peer} was lost during the call, which may or may not have run")
