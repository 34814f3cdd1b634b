"""An exchange whose answering end never waits, and what reads at the other end."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Sequence

from pzc.protocol.frames import Buffer
from pzc.transport.exchange import UnixExchange
from pzc.transport.pipe import Pipe

from tests.contract.rigs.calling import TIMEOUT
from tests.transport.exchanging import Make, pair, soon

CARRYING = 8
"""Flag of a message that a descriptor comes with."""
HUGE = 5_000_000  # far more than a socket holds
NEVER = threading.Event()


class Link:
    """A pipe at one end of a connection, an exchange at the other.

    Args:
        makes: that make the end that reads and the end that writes.
    """

    def __init__(self, makes: Sequence[Make] = (UnixExchange, UnixExchange)) -> None:
        self.ends = pair(makes)
        self.exchange, self.reader = self.ends.answering, self.ends.asking
        self.reader.send("open", soon())
        self.opened = self.exchange.receive(soon(), NEVER)
        self.pipe = self.exchange.divert()

    def push(self, content: bytes = b"content", fd: int = -1) -> bool:
        return self.exchange.push(("pickle", content), self.opened, fd)

    def answer(self, content: bytes = b"content") -> None:
        self.exchange.send(None, soon(), answers=self.opened, packed=("pickle", content))

    def receive(self) -> tuple[Buffer, int]:
        """The next content and descriptor."""
        return self.content(), self.reader.stream.take_descriptor()

    def content(self) -> Buffer:
        message = self.reader.receive(soon(), NEVER)
        assert message.msgid == self.opened.msgid
        return message.content

    def contents(self, count: int) -> list[Buffer]:
        """So many contents that a reader receives while the pipe is flushed as soon as it can be."""
        received: list[Buffer] = []
        thread = threading.Thread(target=lambda: received.extend(self.content() for _ in range(count)))
        thread.start()
        while not self.exchange.flush():
            wait_until_writable(self.pipe)
        thread.join(TIMEOUT)
        return received

    def fill(self) -> int:
        """Send small messages until one is not taken whole; how many went."""
        count = 0
        while self.pipe.ready:
            assert self.push(b"%06d" % count)
            count += 1
        return count

    def close(self) -> None:
        self.exchange.release()
        self.reader.close()
        assert self.ends.refused == []


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
