"""A socket that many threads send on at once: what waits, for how long, and what an interruption leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
import zmq

from pzc.protocol.frames import Buffer
from pzc.transport.sending import TURN

from tests.agents.sendings import Bench, Hooked, busy, in_use, message, opened
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


def test_what_is_given_behind_the_last_message_of_a_socket_is_not_said_to_be_sent(bench: Bench) -> None:
    reader, said = with_reader(bench), list[bool]()

    def give() -> None:
        run_threads(lambda: said.append(bench.sending.send(message(b"late"), time.monotonic())))

    bench.sending.add(Hooked(b"last", give))
    bench.loop.run(bench.sending.close)
    assert reader.recv_multipart() == message(b"last")
    assert said == [False]
