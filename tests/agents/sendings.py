"""A socket that any thread sends on, for the tests, with readers of all that it sends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import zmq

from pzc.protocol.frames import Buffer
from pzc.transport import loops
from pzc.transport.loop import Loop
from pzc.transport.sending import Sending

from tests.contract.rigs.peers import TIMEOUT

NEVER = 1000.0


class Bench:
    """A socket, a reader of all that it sends, and what was told of news.

    Attributes:
        turns: how many messages had their frames made together.
        unsent: messages that have none.
    """

    def __init__(self) -> None:
        self.turns: list[int] = []
        self.unsent: list[Sequence[Buffer]] = []
        self.loop = loops.acquire()
        self.context = zmq.Context()
        self.socket = self.loop.context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{port}"
        self.news = threading.Semaphore(0)
        self.got: list[bytes] = []
        self.refused: list[zmq.ZMQError] = []
        self.sending = Sending(self.loop, self.socket, self.take, self.refused.append, self.frames)
        self.readers: list[zmq.Socket[bytes]] = []

    def take(self) -> None:
        while (parts := self.sending.receive()) is not None:
            self.got += parts
            self.news.release()

    def frames(self, messages: Sequence[Sequence[Buffer]]) -> list[Sequence[Buffer] | None]:
        self.turns.append(len(messages))
        return [None if each in self.unsent else each for each in messages]

    def reader(self, prefix: bytes = b"") -> zmq.Socket[bytes]:
        made = self.context.socket(zmq.SUB)
        self.readers.append(made)
        made.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
        made.setsockopt(zmq.RCVHWM, 0)
        made.connect(self.endpoint)
        made.setsockopt(zmq.SUBSCRIBE, prefix)
        return made

    def close(self) -> None:
        self.loop.run(self.sending.close)
        self.socket.close(0)
        for each in self.readers:
            each.close(0)
        self.context.term()
        loops.release(self.loop)


@contextmanager
def opened() -> Iterator[Bench]:
    made = Bench()
    try:
        yield made
    finally:
        made.close()


def message(text: bytes) -> list[Buffer]:
    return [b"1" + text, b"2" + text, b"3" + text, b"4" + text, b"5" + text]


class Hooked(list[Buffer]):
    """A message, before which whoever sends it does something, while the socket is used."""

    def __init__(self, text: bytes, first: Callable[[], object]) -> None:
        super().__init__(message(text))
        self._first = first

    def __iter__(self) -> Iterator[Buffer]:
        self._first()
        return super().__iter__()


@contextmanager
def in_use(bench: Bench) -> Iterator[int]:
    """Another thread uses the socket meanwhile, whose message and number these are: ``held``, and that."""
    begun, free, sent = threading.Event(), threading.Event(), list[bool]()
    bench.loop.run(bool)  # else the I/O thread may have the socket still, and would send it

    def wait() -> None:
        begun.set()
        assert free.wait(TIMEOUT)

    user = threading.Thread(
        target=lambda: sent.append(bench.sending.send(Hooked(b"held", wait), time.monotonic()))
    )
    user.start()
    assert begun.wait(TIMEOUT)
    assert user.ident is not None
    try:
        yield user.ident
    finally:
        free.set()
        user.join(TIMEOUT)
    assert sent == [True]


def arrived(bench: Bench, prefix: bytes) -> None:
    """Wait until a filter waits at the socket, without its descriptor having been looked at."""
    bench.reader(prefix)
    deadline = time.monotonic() + TIMEOUT
    while not bench.socket.poll(1):
        assert time.monotonic() < deadline


@contextmanager
def busy(loop: Loop) -> Iterator[threading.Event]:
    """The I/O thread does something else meanwhile; gives what is set when it did that for too long."""
    begun, free, over = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        if not free.wait(TIMEOUT):
            over.set()

    loop.call(wait)
    assert begun.wait(TIMEOUT)
    try:
        yield over
    finally:
        free.set()


@contextmanager
def busy_loop() -> Iterator[threading.Event]:
    """As `busy`, of the agents of this process."""
    loop = loops.acquire()
    try:
        with busy(loop) as over:
            yield over
    finally:
        loops.release(loop)
