from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest

from pzc.protocol.errors import AgentClosed, PeerLost
from pzc.protocol.frames import Buffer
from pzc.shm import machine
from pzc.transport.laned import Laned
from pzc.transport.pipe import Pipe
from pzc.transport.stream import INLINE, Stream

from tests.contract.rigs.calling import TIMEOUT
from tests.transport.piping import HUGE, Link, descriptors, wait_until_writable, writable
from tests.transport.streaming import LARGE, NEVER, message, soon

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="descriptors come over Unix sockets")


@pytest.mark.parametrize("size", [0, 5, INLINE, INLINE + 1, HUGE])
def test_a_message_of_any_size_arrives_as_it_was(link: Link, size: int) -> None:
    content = os.urandom(size)
    assert link.push(content)
    (received,) = link.contents(1)
    assert bytes(received) == content
    assert link.pipe.ready


def test_a_pipe_is_not_ready_while_the_rest_of_a_message_is_being_written(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    write_now = Stream.write_now

    def asked_meanwhile(stream: Stream, parts: Sequence[Buffer], fd: int = -1) -> int:
        found.append(link.pipe.ready)
        return write_now(stream, parts, fd)

    assert link.push(bytes(HUGE))
    monkeypatch.setattr(Stream, "write_now", asked_meanwhile)
    link.contents(1)
    assert found
    assert not any(found)


def test_nothing_is_taken_while_something_is_left(link: Link) -> None:
    assert link.push(bytes(HUGE))
    assert not link.pipe.ready
    assert not link.push(b"refused")
    assert not link.exchange.flush()
    received = link.contents(1)
    assert link.push(b"after")
    assert [*map(len, received), link.receive()[0]] == [HUGE, b"after"]


def test_a_reader_that_takes_nothing_costs_the_rest_of_one_message(link: Link) -> None:
    count = link.fill()
    assert not link.push()
    assert len(link.pipe._left) == 1
    assert [bytes(content) for content in link.contents(count)] == [b"%06d" % n for n in range(count)]


def test_the_pipe_tells_when_the_reader_takes_more(link: Link) -> None:
    link.push(bytes(HUGE))
    assert not writable(link.pipe)
    link.contents(1)
    assert not writable(link.pipe)


def test_a_pipe_whose_reader_went_asks_for_one_flush_only(link: Link) -> None:
    link.reader.close()
    link.exchange.flush()
    assert not writable(link.pipe)


def test_a_reader_has_not_received_what_is_in_its_socket(link: Link) -> None:
    assert link.pipe.drained
    assert link.push()
    assert not link.pipe.drained
    link.receive()
    assert link.pipe.drained
    link.push()
    link.exchange.release()
    assert link.pipe.drained


def test_many_answers_go_behind_what_is_left(link: Link) -> None:
    link.push(bytes(HUGE))
    answers = [(("pickle", b"%d" % number), link.opened) for number in range(3)]
    link.exchange.send_many(answers, soon(), packed=True)
    assert [bytes(content[-1:]) for content in link.contents(4)] == [b"\0", b"0", b"1", b"2"]


def test_answers_go_behind_what_is_left(link: Link) -> None:
    link.push(bytes(HUGE))
    link.answer(b"one")
    link.answer(b"two")
    assert [bytes(content[-3:]) for content in link.contents(3)] == [bytes(3), b"one", b"two"]
    link.answer(b"three")
    assert link.receive()[0] == b"three"


def test_a_message_goes_behind_an_answer_that_came_just_before_it(link: Link, files: list[int]) -> None:
    link.answer(bytes(HUGE))
    assert not link.pipe.ready
    assert link.push(b"behind", files[0])
    assert not link.push(b"refused")
    received = link.contents(1)
    content, fd = link.receive()
    assert os.path.sameopenfile(fd, files[0])
    os.close(fd)
    assert [*map(len, received), content] == [HUGE, b"behind"]
    assert link.push(b"after")
    assert link.receive()[0] == b"after"


def test_a_reader_that_takes_no_answers_is_given_up(
    link: Link, monkeypatch: pytest.MonkeyPatch, files: list[int]
) -> None:
    monkeypatch.setattr("pzc.transport.pipe._ANSWERS_BEHIND", 900)
    link.push(bytes(HUGE), files[0])
    for _ in range(4):
        link.answer()
    with pytest.raises(PeerLost, match="takes no more answers"):
        link.answer()
    assert link.pipe.gone
    with pytest.raises(PeerLost):
        link.answer()


def test_nothing_of_a_link_is_signed_by_its_length_only(link: Link) -> None:
    assert not link.exchange.stream.proves(link.exchange.stream.allocate(LARGE))


def test_threads_that_share_a_pipe_do_not_mix_their_messages(link: Link) -> None:
    count, room = 200, threading.Condition()

    def push(number: int) -> None:
        for _ in range(count):
            with room:
                while not link.push(bytes([number]) * 7000):
                    room.wait(TIMEOUT)

    def answer() -> None:
        for _ in range(count):
            link.answer(b"\x09" * 100)

    def flush() -> None:
        while not done.is_set():
            link.exchange.flush()
            with room:
                room.notify_all()
            done.wait(0.001)

    done = threading.Event()
    writers = [threading.Thread(target=push, args=(n,)) for n in (1, 2)] + [threading.Thread(target=answer)]
    flusher = threading.Thread(target=flush)
    for thread in (*writers, flusher):
        thread.start()
    seen = [link.receive()[0] for _ in range(3 * count)]
    done.set()
    for thread in (*writers, flusher):
        thread.join(TIMEOUT)
    assert sorted(len(content) for content in seen) == [100] * count + [7000] * 2 * count
    assert all(len(set(bytes(content))) == 1 for content in seen)


def test_a_pipe_that_is_closed_closes_everything_and_takes_nothing(link: Link, files: list[int]) -> None:
    before = descriptors()
    link.push(bytes(HUGE), files[0])
    link.exchange.release()
    link.exchange.release()
    assert descriptors() == before - 2 - isinstance(link.exchange, Laned)  # that of the lane, of the socket,
    # and of what tells when it is writable
    assert not link.push()
    assert not link.exchange.flush()
    assert (link.pipe.gone, link.pipe.ready, link.pipe.fileno()) == (True, False, -1)


def test_closing_from_another_thread_ends_what_receives(link: Link) -> None:
    ended: list[Exception] = []

    def receive() -> None:
        try:
            link.exchange.receive(soon(), NEVER)
        except AgentClosed as exc:
            ended.append(exc)

    thread = threading.Thread(target=receive)
    thread.start()
    link.push(bytes(HUGE))
    link.exchange.release()
    thread.join(TIMEOUT)
    assert len(ended) == 1


def test_a_pipe_over_a_connection_that_is_closed_is_gone() -> None:
    one, two = socket.socketpair()
    stream = Stream(one)
    two.close()
    stream.close()
    pipe = Pipe(stream)
    assert not pipe.push(message())
    pipe.close()


READER = """
import socket, sys, threading
from pzc.transport.stream import Stream
stream = Stream(socket.socket(fileno=int(sys.argv[1])))
while True:
    stream.receive(float("inf"), threading.Event())
    stream.send([b"", b"", b"got", b"", b""], float("inf"))
"""


class Reader:
    """Another process that answers every message."""

    def __init__(self) -> None:
        one, other = socket.socketpair()
        with other:
            command = [sys.executable, "-c", READER, str(other.fileno())]
            self.process = subprocess.Popen(command, pass_fds=[other.fileno()])
        self.stream = Stream(one, "the reader")
        self.pipe = Pipe(self.stream)

    def answer(self) -> Buffer:
        return self.stream.receive(soon(30), NEVER)[2]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def other() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.kill()
    made.pipe.close()
    made.stream.close()


def test_a_reader_that_is_frozen_stops_nobody_and_gets_everything_later(other: Reader) -> None:
    assert other.pipe.push(message())
    assert other.answer() == b"got"
    other.process.send_signal(signal.SIGSTOP)
    assert other.pipe.push(message(bytes(HUGE)))
    assert not other.pipe.push(message())
    assert not other.pipe.flush()
    other.process.send_signal(signal.SIGCONT)
    while not other.pipe.flush():
        wait_until_writable(other.pipe)
    assert other.answer() == b"got"


def test_a_reader_that_is_killed_ends_the_pipe_and_leaves_no_descriptor(
    other: Reader, files: list[int]
) -> None:
    before = descriptors()
    other.pipe.push(message())
    assert other.answer() == b"got"
    other.process.send_signal(signal.SIGSTOP)
    assert other.pipe.push(message(bytes(HUGE)), files[0])
    other.kill()
    with pytest.raises(PeerLost):
        other.answer()
    assert not other.pipe.flush()
    assert other.pipe.gone
    assert descriptors() == before - 1  # the socket
