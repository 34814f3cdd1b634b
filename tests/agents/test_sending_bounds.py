"""A socket that many threads send on at once: what waits, for how long, and what an interruption leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import zmq

from pzc.protocol import limits
from pzc.protocol.frames import Buffer
from pzc.transport.sending import KEPT, TURN

from tests.agents.sendings import NEVER, Bench, Hooked, arrived, busy, in_use, message, opened
from tests.contract.rigs.peers import TIMEOUT, run_threads


@pytest.fixture
def bench() -> Iterator[Bench]:
    with opened() as made:
        yield made


def with_reader(bench: Bench) -> zmq.Socket[bytes]:
    bench.loop.run(bench.sending.start)
    reader = bench.reader()
    assert bench.news.acquire(timeout=TIMEOUT)
    bench.loop.run(bool)  # else the I/O thread may still receive, and would send what is added
    return reader


def numbered(count: int, first: int = 0) -> list[list[Buffer]]:
    return [message(b"%d" % number) for number in range(first, first + count)]


def send_all(bench: Bench, messages: Sequence[list[Buffer]]) -> None:
    """In another thread, which has to come back while somebody uses the socket."""
    sent: list[bool] = []
    run_threads(lambda: sent.extend([bench.sending.send(each, time.monotonic()) for each in messages]))
    assert sent == [True] * len(messages)


def test_whoever_sends_sends_so_many_of_others_and_the_io_thread_the_rest(bench: Bench) -> None:
    reader, threads = with_reader(bench), list[int]()
    note = lambda: threads.append(threading.get_ident())  # noqa: E731
    noted = [Hooked(b"%d" % number, note) for number in range(3 * TURN)]
    with in_use(bench) as user:
        send_all(bench, noted)
    assert [reader.recv_multipart() for _ in range(1 + len(noted))] == [message(b"held"), *noted]
    io = bench.loop.run(threading.get_ident)
    assert threads == [user] * (TURN - 1) + [io] * (2 * TURN + 1)


class Watched(limits.Limits):
    """Limits that tell when somebody looks how long a sender waits for the socket."""

    looked = threading.Event()

    def __getattribute__(self, name: str) -> Any:
        if name == "send_patience":
            Watched.looked.set()
        return super().__getattribute__(name)


def test_whoever_sends_when_too_much_waits_already_waits_for_the_socket(bench: Bench) -> None:
    reader = with_reader(bench)
    limits.use(Watched(send_waiting=5, send_patience=NEVER))
    with in_use(bench):
        Watched.looked.clear()
        send_all(bench, numbered(5))
        assert not Watched.looked.is_set()
        late = threading.Thread(target=lambda: bench.sending.send(message(b"5"), time.monotonic()))
        late.start()
        assert Watched.looked.wait(TIMEOUT)
        assert late.is_alive()
    late.join(TIMEOUT)
    assert not late.is_alive()
    assert [reader.recv_multipart() for _ in range(7)] == [message(b"held"), *numbered(6)]


def test_what_waits_beyond_the_patience_of_its_sender_is_sent_all_the_same(
    bench: Bench, timings: Callable[..., None]
) -> None:
    reader = with_reader(bench)
    timings(send_waiting=5)
    timings(send_patience=0.001)
    with in_use(bench):
        send_all(bench, numbered(20))
    assert bench.sending.send(message(b"20"), time.monotonic())
    assert [reader.recv_multipart() for _ in range(22)] == [message(b"held"), *numbered(21)]
    assert not bench.refused


def test_whoever_sends_in_the_middle_of_its_own_message_never_waits(
    bench: Bench, timings: Callable[..., None]
) -> None:
    """It would wait for itself."""
    reader = with_reader(bench)
    timings(send_waiting=5)
    timings(send_patience=NEVER)

    def send_more() -> None:
        for each in numbered(20, first=1):
            bench.sending.send(each, time.monotonic())

    run_threads(lambda: bench.sending.send(Hooked(b"0", send_more), time.monotonic()))
    assert [reader.recv_multipart() for _ in range(21)] == numbered(21)


def test_what_is_refused_is_told_once_and_keeps_nothing_of_others(bench: Bench) -> None:
    """Nor is it an error of whoever happened to send it."""
    reader = with_reader(bench)

    def refuse() -> None:
        raise zmq.ZMQError(zmq.ENOTSUP)

    with in_use(bench):
        send_all(bench, [message(b"0"), Hooked(b"1", refuse), message(b"2")])
    assert bench.sending.send(message(b"3"), time.monotonic())
    assert [reader.recv_multipart()[0] for _ in range(4)] == [b"1held", b"10", b"12", b"13"]
    assert [error.errno for error in bench.refused] == [zmq.ENOTSUP]


def interrupted(bench: Bench, during: Callable[[], object]) -> None:
    """Send a message, and be interrupted once something has happened."""

    def interrupt() -> None:
        during()
        raise KeyboardInterrupt

    with busy(bench.loop), pytest.raises(KeyboardInterrupt):
        bench.sending.send(Hooked(b"half", interrupt), time.monotonic())


def test_what_others_gave_to_an_interrupted_sender_is_sent_without_another_one(bench: Bench) -> None:
    reader = with_reader(bench)
    interrupted(bench, lambda: send_all(bench, [message(b"other")]))
    assert [reader.recv_multipart() for _ in range(2)] == [[b""], message(b"other")]


def test_news_that_an_interrupted_sender_kept_from_the_io_thread_is_told(
    bench: Bench, timings: Callable[..., None]
) -> None:
    timings(send_tail=NEVER)
    bench.loop.run(bench.sending.start)

    def come() -> None:
        arrived(bench, b"prefix")
        run_threads(bench.take)  # in the place of the I/O thread

    interrupted(bench, come)
    assert bench.news.acquire(timeout=TIMEOUT)
    assert bench.got == [b"\1prefix"]


def test_what_is_given_behind_the_last_message_of_a_socket_is_not_said_to_be_sent(bench: Bench) -> None:
    reader, said = with_reader(bench), list[bool]()

    def give() -> None:
        run_threads(lambda: said.append(bench.sending.send(message(b"late"), time.monotonic())))

    bench.sending.add(Hooked(b"last", give))
    bench.loop.run(bench.sending.close)
    assert reader.recv_multipart() == message(b"last")
    assert said == [False]


def test_what_comes_for_the_io_thread_waits_in_the_socket_while_that_is_busy(
    bench: Bench, timings: Callable[..., None]
) -> None:
    timings(send_look=0.0)
    bench.loop.run(bench.sending.start)
    count, left = 3 * KEPT, list[bytes]()
    with busy(bench.loop):
        reader = bench.reader(b"0")
        for number in range(1, count):
            reader.setsockopt(zmq.SUBSCRIBE, b"%d" % number)
        deadline, more = time.monotonic() + TIMEOUT, 0
        while more < 10:
            assert bench.sending.send(message(b""), time.monotonic())
            more = more + 1 if bench.socket.poll(0) else 0  # somebody who looks takes what it may
            assert time.monotonic() < deadline
        bench.socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
        left += [bench.socket.recv() for _ in range(count - KEPT)]
    for _ in range(count - len(left)):
        assert bench.news.acquire(timeout=TIMEOUT)
    assert sorted(bench.got + left) == sorted(b"\1%d" % number for number in range(count))
