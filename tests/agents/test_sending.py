"""A socket that any thread sends on: messages stay whole, and news is seen whoever used the socket."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import zmq

from pzc.transport.sending import TURN

from tests.agents.sendings import NEVER, Bench, Hooked, arrived, busy, in_use, message, opened
from tests.contract.rigs.peers import TIMEOUT, run_threads


@pytest.fixture
def bench() -> Iterator[Bench]:
    with opened() as made:
        yield made


def test_messages_of_eight_threads_stay_whole(bench: Bench) -> None:
    bench.loop.run(bench.sending.start)
    reader = bench.reader()
    assert bench.news.acquire(timeout=TIMEOUT)

    def send(thread: int) -> None:
        for turn in range(200):
            assert bench.sending.send(message(b"%d.%d" % (thread, turn)), time.monotonic())

    run_threads(*[lambda thread=thread: send(thread) for thread in range(8)])
    got = [reader.recv_multipart() for _ in range(1600)]
    assert all(parts == message(parts[0][1:]) for parts in got)
    for thread in range(8):
        mine = [parts[0] for parts in got if parts[0].startswith(b"1%d." % thread)]
        assert mine == [b"1%d.%d" % (thread, turn) for turn in range(200)]


def test_frames_are_made_of_what_goes_together_and_what_has_none_is_left_out(bench: Bench) -> None:
    bench.loop.run(bench.sending.start)
    reader = bench.reader()
    assert bench.news.acquire(timeout=TIMEOUT)
    bench.unsent = [message(b"2")]
    for number in range(TURN + 2):
        assert bench.sending.add(message(b"%d" % number))
    assert bench.turns == []
    bench.sending.flush(time.monotonic())
    got = [reader.recv_multipart() for _ in range(TURN + 1)]
    assert got == [message(b"%d" % number) for number in range(TURN + 2) if number != 2]
    assert bench.turns == [TURN, 2]


def test_what_waits_when_it_is_closed_is_sent(bench: Bench) -> None:
    bench.loop.run(bench.sending.start)
    reader = bench.reader()
    assert bench.news.acquire(timeout=TIMEOUT)
    for number in range(TURN + 2):
        assert bench.sending.add(message(b"%d" % number))
    bench.loop.run(bench.sending.close)
    assert [reader.recv_multipart() for _ in range(TURN + 2)] == [
        message(b"%d" % number) for number in range(TURN + 2)
    ]


@pytest.mark.parametrize("looked", [0.0, NEVER])
def test_news_that_a_sender_has_taken_from_the_descriptor_is_told(bench: Bench, looked: float) -> None:
    """At once by whoever looks, else by the timer."""
    arrived(bench, b"prefix")
    bench.sending.send(message(b"x"), time.monotonic() if not looked else -looked)
    assert bench.news.acquire(timeout=TIMEOUT)
    assert bench.got == [b"\1prefix"]


def test_a_message_that_is_sent_in_the_middle_of_another_goes_behind_it(bench: Bench) -> None:
    bench.loop.run(bench.sending.start)
    reader = bench.reader()
    assert bench.news.acquire(timeout=TIMEOUT)
    inner: list[bool] = []
    send = bench.sending.send
    outer = Hooked(b"outer", lambda: inner.append(send(message(b"inner"), time.monotonic())))
    assert send(outer, time.monotonic())
    assert [reader.recv_multipart() for _ in range(2)] == [message(b"outer"), message(b"inner")]
    assert inner == [True]


def test_what_was_sent_of_an_interrupted_message_does_not_join_the_next(bench: Bench) -> None:
    bench.loop.run(bench.sending.start)
    reader = bench.reader()
    assert bench.news.acquire(timeout=TIMEOUT)

    def interrupted() -> None:
        bench.socket.send(b"1half", zmq.SNDMORE)
        raise KeyboardInterrupt

    with (
        busy(bench.loop),
        pytest.raises(KeyboardInterrupt),
    ):  # else the I/O thread might be the one that sends
        bench.sending.send(Hooked(b"half", interrupted), time.monotonic())
    assert bench.sending.send(message(b"whole"), time.monotonic())
    assert [reader.recv_multipart() for _ in range(2)] == [[b"1half", b""], message(b"whole")]


def test_nothing_is_sent_or_received_after_close(bench: Bench) -> None:
    bench.loop.run(bench.sending.start)
    bench.loop.run(bench.sending.close)
    arrived(bench, b"prefix")
    assert not bench.sending.send(message(b"x"), time.monotonic())
    assert bench.sending.receive() is None


def test_nobody_waits_for_whoever_uses_the_socket(bench: Bench) -> None:
    """Who that is sends what others have given meanwhile, and looks for news."""
    bench.loop.run(bench.sending.start)
    reader = bench.reader()
    assert bench.news.acquire(timeout=TIMEOUT)
    with in_use(bench):
        run_threads(lambda: bench.sending.send(message(b"one"), time.monotonic()))
        bench.reader(b"prefix")
        bench.loop.run(bench.take)
    assert [reader.recv_multipart() for _ in range(2)] == [message(b"held"), message(b"one")]
    assert bench.news.acquire(timeout=TIMEOUT)
