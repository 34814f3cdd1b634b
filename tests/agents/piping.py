"""A pipe at one end of a connection, and what reads at the other."""

from __future__ import annotations

import os
import select
import socket
import threading

from pzc.agents.notifications.links.pipe import Pipe
from pzc.protocol.frames import Buffer
from pzc.transport.stream import Stream

from tests.contract.rigs.calling import TIMEOUT
from tests.transport.streaming import NEVER, message, soon

CARRYING = 8
"""Flag of a message that a descriptor comes with."""
HUGE = 5_000_000  # far more than a socket holds


class Link:
    """A pipe at one end of a connection, a stream at the other."""

    def __init__(self) -> None:
        one, two = socket.socketpair()
        self.stream = Stream(one, "the reader")
        self.pipe = Pipe(self.stream)
        self.reader = Stream(two, "the publisher")

    def receive(self) -> tuple[Buffer, int]:
        """The next content and descriptor."""
        return self.content(), self.reader.take_descriptor()

    def content(self) -> Buffer:
        return self.reader.receive(soon(), NEVER)[2]

    def contents(self, count: int) -> list[Buffer]:
        """So many contents that a reader receives while the pipe is flushed as soon as it can be."""
        received: list[Buffer] = []
        thread = threading.Thread(target=lambda: received.extend(self.content() for _ in range(count)))
        thread.start()
        while not self.pipe.flush():
            wait_until_writable(self.pipe)
        thread.join(TIMEOUT)
        return received

    def fill(self) -> int:
        """Send small messages until one is not taken whole; how many went."""
        count = 0
        while self.pipe.ready:
            assert self.pipe.push(message(b"%06d" % count))
            count += 1
        return count

    def close(self) -> None:
        self.pipe.close()
        self.reader.close()


def wait_until_writable(pipe: Pipe) -> None:
    assert select.select([pipe.fileno()], [], [], TIMEOUT)[0]


def writable(pipe: Pipe) -> bool:
    return bool(select.select([pipe.fileno()], [], [], 0)[0])


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def identity(fd: int) -> int:
    """Inode of a descriptor, which is closed."""
    try:
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)
