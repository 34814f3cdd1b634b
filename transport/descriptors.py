"""Descriptors: those that came over a Unix socket, until somebody takes them."""

from __future__ import annotations

import array
import contextlib
import os
import socket as sockets
from collections import deque
from collections.abc import Sequence

from ..protocol.errors import PeerLost, RemoteProtocolError

MAX_FDS = 2
"""That of a message, and that of the next one when it was received along with the end of this."""

Rights = Sequence[tuple[int, int, bytes]]

_TRUNCATED = int(sockets.MSG_CTRUNC)


def require(count: int) -> None:
    """See to it that so many descriptors can be opened; without them libzmq ends the process, here and there.

    Raises:
        OSError: when they cannot.
    """
    found = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while len(found) < count:
            found.append(os.dup(found[0]))
    finally:
        for each in found:
            os.close(each)


class Starved(PeerLost):
    """Something came for which this process has no descriptor, or no memory, left."""


class Descriptors(deque[int]):
    """Descriptors in the order in which they came; for the thread that receives, except `close`.

    The first may be *offered*: its message was received, and it is closed unless it is taken before the next.
    """

    __slots__ = ("_offered",)

    def __init__(self) -> None:
        super().__init__()
        self._offered = False

    @property
    def waiting(self) -> int:
        """How many came and are not offered yet."""
        return len(self) - self._offered

    def keep(self, rights: Rights, flags: int) -> None:
        """Keep what came with some bytes.

        Raises:
            RemoteProtocolError: when it was too much.
            Starved: when the kernel could not give it to this process.
        """
        if flags & _TRUNCATED and not rights:
            raise Starved("a descriptor came and no more can be opened here: raise the limit (ulimit -n)")
        for level, kind, data in rights:
            if (level, kind) == (sockets.SOL_SOCKET, sockets.SCM_RIGHTS):
                self.extend(array.array("i", data))
        if flags & _TRUNCATED or self.waiting > MAX_FDS:
            raise RemoteProtocolError("too many descriptors came at once")

    def offer(self) -> None:
        """Let the first be taken.

        Raises:
            RemoteProtocolError: when none came.
        """
        if not self:
            raise RemoteProtocolError("the descriptor of a message did not come with it")
        self._offered = True

    def take(self) -> int:
        """The one that is offered, which is the caller's then; -1 when there is none."""
        if self._offered:
            self._offered = False
            with contextlib.suppress(IndexError):  # closed meanwhile
                return self.popleft()
        return -1

    def withdraw(self) -> None:
        """Close the one that is offered."""
        fd = self.take()
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Close all of them; any thread."""
        with contextlib.suppress(IndexError):
            while True:
                os.close(self.popleft())
