"""Bell: what wakes a thread that waits for sockets and descriptors."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial

from ..shm import machine


class Bell:
    """A pipe; where one cannot be waited for beside sockets, a pair of these.

    Attributes:
        fileno: becomes readable when it is rung.
        ring: any thread; raises BlockingIOError when it was rung so often that all room is taken.
        hush: takes what was rung so far.
        close: gives both ends back.
    """

    def __init__(self) -> None:
        self.ring: Callable[[], object]
        self.hush: Callable[[], object]
        self.close: Callable[[], object]
        if machine.PIPES:
            self.fileno, write = os.pipe()
            for end in (self.fileno, write):
                os.set_blocking(end, False)
            self.ring, self.hush = partial(os.write, write, b"\0"), partial(os.read, self.fileno, 4096)
            self.close = partial(_close, self.fileno, write)
            return
        ends = socket.socketpair()
        for end in ends:
            end.setblocking(False)
        self.fileno = ends[0].fileno()
        self.ring, self.hush = partial(ends[1].send, b"\0"), partial(ends[0].recv, 4096)
        self.close = partial(_close_sockets, *ends)


def _close(*ends: int) -> None:
    for end in ends:
        os.close(end)


def _close_sockets(*ends: socket.socket) -> None:
    for end in ends:
        end.close()
