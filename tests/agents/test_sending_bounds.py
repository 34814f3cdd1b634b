"""A socket that many threads send on at once: what waits, for how long, and what an interruption leaves."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import pytest
import zmq

from pzc.protocol.frames import Buffer
from pzc.transport import sending as sending_module

from tests.agents.sendings import NEVER, Bench, arrived, busy, message, opened
from tests.contract.rigs.peers import TIMEOUT, run_threads


@pytest.fixture
def bench() -> Iterator[Bench]:
    with opened() as made:
        yield made


def with_reader(bench: Bench) -> zmq.Socket[bytes]:
    bench.loop.run(bench.sending.start)
    reader = bench.reader()
    assert bench.news.acquire(timeout=TIMEOUT)
    return reader


def numbered(count: int, first: int = 0) -> list[list[Buffer]]:
    return [message(b"%d" % number) for number in range(first, first + count)]


def send_all(bench: Bench, messages: list[list[Buffer]]) -> None:
    """In another thread, which has to come back while somebody uses the socket."""
    sent: list[bool] = []
    run_threads(lambda: sent.extend([bench.sending.send(each, time.monotonic()) for each in messages]))
    assert sent == [True] * len(messages)


def test_whoever_sends_sends_so_many_of_others_and_the_io_thread_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = with_reader(bench)
    count, real, threads = 3 * sending_module.TURN, sending_module.send_parts, list[int]()

    def watched(socket: zmq.Socket[bytes], route: Sequence[bytes], frames: Sequence[Buffer]) -> None:
        threads.append(threading.get_ident())
        real(socket, route, frames)

    monkeypatch.setattr(sending_module, "send_parts", watched)
    with bench.sending._using:
        send_all(bench, numbered(count - 1))
    bench.sending.send(message(b"%d" % (count - 1)), time.monotonic())
    assert [reader.recv_multipart() for _ in range(count)] == numbered(count)
    assert threads.count(threading.get_ident()) == sending_module.TURN


class Waited:
    """The lock of a socket, which tells who waits for it."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.release = lock.release
        self.waits = threading.Event()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if timeout > 0:
            self.waits.set()
        return self._lock.acquire(blocking, timeout)


def test_whoever_sends_when_too_much_waits_already_waits_for_the_socket(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, timings: Callable[..., None]
) -> None:
    reader = with_reader(bench)
    timings(send_waiting=5)
    timings(send_patience=NEVER)
    lock = Waited(bench.sending._using)
    monkeypatch.setattr(bench.sending, "_using", lock)
    assert lock.acquire()
    send_all(bench, numbered(5))
    assert not lock.waits.is_set()
    late = threading.Thread(target=lambda: bench.sending.send(message(b"5"), time.monotonic()))
    late.start()
    assert lock.waits.wait(TIMEOUT)
    assert late.is_alive()
    lock.release()
    late.join(TIMEOUT)
    assert not late.is_alive()
    assert [reader.recv_multipart() for _ in range(6)] == numbered(6)


def test_what_waits_beyond_the_patience_of_its_sender_is_sent_all_the_same(
    bench: Bench, timings: Callable[..., None]
) -> None:
    reader = with_reader(bench)
    timings(send_waiting=5)
    timings(send_patience=0.001)
    with bench.sending._using:
        send_all(bench, numbered(20))
    assert bench.sending.send(message(b"20"), time.monotonic())
    assert [reader.recv_multipart() for _ in range(21)] == numbered(21)
    assert not bench.refused


def test_whoever_sends_in_the_middle_of_its_own_message_never_waits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, timings: Callable[..., None]
) -> None:
    """It would wait for itself."""
    reader = with_reader(bench)
    timings(send_waiting=5)
    timings(send_patience=NEVER)
    real = sending_module.send_parts

    def interrupted(socket: zmq.Socket[bytes], route: Sequence[bytes], frames: Sequence[Buffer]) -> None:
        if frames[0] == b"10":
            for each in numbered(20, first=1):
                bench.sending.send(each, time.monotonic())
        real(socket, route, frames)

    monkeypatch.setattr(sending_module, "send_parts", interrupted)
    run_threads(lambda: bench.sending.send(message(b"0"), time.monotonic()))
    assert [reader.recv_multipart() for _ in range(21)] == numbered(21)


def test_what_is_refused_is_told_once_and_keeps_nothing_of_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it an error of whoever happened to send it."""
    reader = with_reader(bench)
    real = sending_module.send_parts

    def refusing(socket: zmq.Socket[bytes], route: Sequence[bytes], frames: Sequence[Buffer]) -> None:
        if frames[0] == b"11":
            raise zmq.ZMQError(zmq.ENOTSUP)
        real(socket, route, frames)

    monkeypatch.setattr(sending_module, "send_parts", refusing)
    with bench.sending._using:
        send_all(bench, numbered(3))
    assert bench.sending.send(message(b"3"), time.monotonic())
    assert [reader.recv_multipart()[0] for _ in range(3)] == [b"10", b"12", b"13"]
    assert [error.errno for error in bench.refused] == [zmq.ENOTSUP]


def interrupted(bench: Bench, monkeypatch: pytest.MonkeyPatch, during: Callable[[], object]) -> None:
    """Send a message, and be interrupted once something has happened."""
    real, left = sending_module.send_parts, ["once"]

    def send(socket: zmq.Socket[bytes], route: Sequence[bytes], frames: Sequence[Buffer]) -> None:
        if left:
            left.clear()
            during()
            raise KeyboardInterrupt
        real(socket, route, frames)

    monkeypatch.setattr(sending_module, "send_parts", send)
    with busy(bench), pytest.raises(KeyboardInterrupt):
        bench.sending.send(message(b"half"), time.monotonic())


def test_what_others_gave_to_an_interrupted_sender_is_sent_without_another_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = with_reader(bench)
    interrupted(bench, monkeypatch, lambda: send_all(bench, [message(b"other")]))
    assert [reader.recv_multipart() for _ in range(2)] == [[b""], message(b"other")]


def test_news_that_an_interrupted_sender_kept_from_the_io_thread_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, timings: Callable[..., None]
) -> None:
    timings(send_tail=NEVER)
    bench.loop.run(bench.sending.start)

    def come() -> None:
        arrived(bench, b"prefix")
        run_threads(bench.take)  # in the place of the I/O thread

    interrupted(bench, monkeypatch, come)
    assert bench.news.acquire(timeout=TIMEOUT)
    assert bench.got == [b"\1prefix"]


def test_what_is_given_behind_the_last_message_of_a_socket_is_not_said_to_be_sent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.loop.run(bench.sending.start)
    said: list[bool] = []

    class Empty(deque[Sequence[Buffer]]):
        def __bool__(self) -> bool:
            left = len(self) > 0
            if not (left or said) and bench.sending._using.locked():
                said.append(True)  # here once only
                run_threads(lambda: said.append(bench.sending.send(message(b"late"), time.monotonic())))
            return left

    monkeypatch.setattr(bench.sending, "_waiting", Empty())
    bench.loop.run(bench.sending.close)
    assert said == [True, False]


def test_what_comes_for_the_io_thread_waits_in_the_socket_while_that_is_busy(
    bench: Bench, timings: Callable[..., None]
) -> None:
    timings(send_look=0.0)
    bench.loop.run(bench.sending.start)
    count = 3 * sending_module._MOST
    with busy(bench):
        reader = bench.reader(b"0")
        for number in range(1, count):
            reader.setsockopt(zmq.SUBSCRIBE, b"%d" % number)
        deadline = time.monotonic() + TIMEOUT
        while len(bench.sending._received) < sending_module._MOST:
            assert bench.sending.send(message(b""), time.monotonic())
            assert time.monotonic() < deadline
        for number in range(10):
            arrived(bench, b"more %d" % number)
            assert bench.sending.send(message(b""), time.monotonic())
        assert len(bench.sending._received) == sending_module._MOST
    for _ in range(count):
        assert bench.news.acquire(timeout=TIMEOUT)
    assert set(bench.got) >= {b"\1%d" % number for number in range(count)}
