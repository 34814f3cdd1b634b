"""Pipe: what is written to a Unix connection without ever waiting.

What the kernel does not take at once is kept, and written when it takes more; while something is kept the
pipe is not `ready`, and a link keeps its notifications by their policies instead. So a reader that is slow,
frozen or gone costs the publisher one message that is half in the socket::

    state    event                          next
    ready    push, all taken by the kernel  ready
    ready    push, not all taken            full     the rest is kept, with its descriptor
    full     push, answers only are left    full     goes behind them: they came after `ready` was asked
    full     push, else                     full     refused: nothing of it is kept
    full     send (an answer to a request)  full     goes behind what is kept; over `answers_behind`: gone
    full     flush, all taken               ready
    any      the connection is over, close  gone

`.exchange` has one where its connection was dedicated to a link, and calls it with its lock of sending held,
but for what says otherwise.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections import deque
from collections.abc import Sequence

from ..protocol.errors import AgentClosed, PeerLost
from ..protocol.frames import Buffer
from .framing import CARRYING, PLAIN, compose
from .link_stream import LinkStream

_ANSWERS_BEHIND = 1 << 20
"""Bytes of answers that may wait behind the rest of a message; a reader that takes none is given up."""


_WRITABLE = select.EPOLLOUT | select.EPOLLONESHOT if hasattr(select, "EPOLLOUT") else 0


class Pipe:
    """Writes to a stream in place of `LinkStream.send`.

    Args:
        stream: of the connection, which still receives by itself.

    Attributes:
        ready: nothing is left, so that `push` takes a message; any thread.
        gone: the connection is over; any thread.
    """

    def __init__(self, stream: LinkStream) -> None:
        self._stream = stream
        self._left: deque[tuple[list[memoryview], int]] = deque()
        self._behind = 0
        self._pushed = False  # among what is left is what was pushed
        self.gone = False
        # It is readable when the socket is writable, so a loop that waits for readers will do.
        self._writable = select.epoll()
        try:
            self._writable.register(stream.fileno(), select.EPOLLONESHOT)
        except (OSError, ValueError):  # the connection is over: the first write tells
            self.gone = True
        self.ready = not self.gone
        stream.divert(self.send)

    @property
    def drained(self) -> bool:
        """True when the reader has received everything, or the connection is over; any thread."""
        return self.gone or not (self._left or self._stream.untaken())

    def fileno(self) -> int:
        """A descriptor that is readable when `flush` should be called; -1 when the pipe is closed."""
        return -1 if self._writable.closed else self._writable.fileno()

    def push(self, frames: Sequence[Buffer], fd: int = -1) -> bool:
        """Send a message, or keep what the kernel does not take of it.

        Args:
            frames: five; those of a message that is kept must not change until it went.
            fd: descriptor that comes with the message, for whoever receives it; it stays the caller's.

        Returns:
            False when what was pushed before is left, or the connection is over: nothing of the message went
            or will go.

        Raises:
            LocalProtocolError: not five frames of sane sizes.
        """
        if self._pushed or self.gone:
            return False
        parts = compose(frames, CARRYING if fd >= 0 else PLAIN)
        taken = self._keep(parts, fd) if self._left else self._begin(parts, fd)
        self._pushed = taken and bool(self._left)
        return taken

    def keep(self, rest: bytes) -> None:
        """Keep the rest of a message that somebody else has begun to write; nothing is left before it."""
        self._pushed = True
        self._keep([rest], -1)

    def send(self, frames: Sequence[Buffer], deadline: float) -> None:
        """Send an answer to a request of the reader, behind whatever is left; see `Transport.send`.

        Args:
            frames: five.
            deadline: not needed, because nothing is waited for.

        Raises:
            LocalProtocolError: not five frames of sane sizes.
            PeerLost: the connection is over, or was given up because the reader takes nothing.
        """
        parts = compose(frames)
        size = sum(map(len, parts))
        if self._left and self._behind + size > _ANSWERS_BEHIND:
            self.end()
            self._stream.close()
            raise PeerLost(f"{self._stream.peer} was given up, because it takes no more answers")
        if self._left:
            self._behind += size
            self._keep(parts, -1)
        elif self.gone or not self._begin(parts, -1):
            raise PeerLost(f"{self._stream.peer} was lost before it got the message whole")

    def flush(self) -> bool:
        """Write more of what is left, when the descriptor of `fileno` is readable or at any other time.

        Returns:
            True when the pipe is ready.
        """
        if self.gone:
            return False
        self._writable.poll(0)  # else it stays readable
        while self._left and self._continue():
            pass
        if not (self._left or self.gone):
            self._behind, self._pushed, self.ready = 0, False, True
        return self.ready

    def end(self) -> None:
        """The connection is over: what is left is forgotten."""
        self.gone, self.ready = True, False
        while self._left:
            _, fd = self._left.popleft()
            if fd >= 0:
                os.close(fd)

    def close(self) -> None:
        """`end`, and close the descriptor of `fileno`; again does nothing."""
        self.end()
        self._writable.close()

    def _begin(self, parts: list[Buffer], fd: int) -> bool:
        """Send a message, with nothing left before it; False when it cannot go."""
        taken = self._write(parts, fd)
        if taken < 0:
            return False
        if taken == sum(map(len, parts)):
            return True
        return self._keep(_behind(list(map(memoryview, parts)), taken), -1 if taken else fd)

    def _continue(self) -> bool:
        """Go on with the first message that is left; False when the kernel takes no more."""
        parts, fd = self._left[0]  # where it stays meanwhile: `drained` is asked without the lock
        taken = self._write(parts, fd)
        if taken < 0:
            return False
        if taken and fd >= 0:
            os.close(fd)
            fd = -1
        rest = _behind(parts, taken)
        if rest:
            self._left[0] = rest, fd
            self._await()
        else:
            self._left.popleft()
        return not rest

    def _keep(self, parts: Sequence[Buffer], fd: int) -> bool:
        """Keep parts of a message behind what is left; False when there is no descriptor of their own."""
        try:
            own = os.dup(fd) if fd >= 0 else -1
        except OSError:
            return False
        self.ready = False
        self._left.append((list(map(memoryview, parts)), own))
        self._await()
        return True

    def _await(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it is over: the next write tells
            self._writable.modify(self._stream.fileno(), _WRITABLE)

    def _write(self, parts: Sequence[Buffer], fd: int) -> int:
        """Bytes that the kernel took; -1 when the connection is over."""
        try:
            return self._stream.write_now(parts, fd)
        except (PeerLost, AgentClosed):
            self.end()
            return -1


def _behind(parts: list[memoryview], taken: int) -> list[memoryview]:
    """What is left of the parts behind their first bytes."""
    while parts and taken >= len(parts[0]):
        taken -= len(parts.pop(0))
    if parts:
        parts[0] = parts[0][taken:]
    return parts
