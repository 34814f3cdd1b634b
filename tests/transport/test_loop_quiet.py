from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import zmq

from pzc.transport import loops
from pzc.transport.loop import Loop

from tests.contract.rigs.calling import TIMEOUT


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = loops.acquire()
    yield found
    loops.release(found)


@contextmanager
def pair(loop: Loop, name: str) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    """A socket for the I/O thread, and one for the test."""
    inner, outer = loop.context.socket(zmq.PAIR), loop.context.socket(zmq.PAIR)
    inner.bind(f"inproc://{name}")
    outer.connect(f"inproc://{name}")
    yield inner, outer
    loop.run(lambda: loop.unregister(inner))
    inner.close(0)
    outer.close(0)


def looking(socket: zmq.Socket[bytes], then: Callable[[bytes], object]) -> Callable[[], bool]:
    """A handler that looks for itself whether there is something to read."""

    def take() -> bool:
        while socket.poll(0):
            then(socket.recv())
        return True

    return take


def fire(event: threading.Event, untouched: bool) -> bool:
    """A timer; whether it says that it touched no socket."""
    event.set()
    return untouched


def test_nothing_is_missed_between_a_socket_whose_handler_looks_and_others(loop: Loop) -> None:
    got: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader, writer = os.pipe()
    with pair(loop, "looks") as (one, to_one), pair(loop, "other") as (two, to_two):
        loop.run(lambda: loop.register(one, looking(one, got.put), looks=True))
        loop.run(lambda: loop.register(two, lambda: got.put(two.recv())))
        loop.run(lambda: loop.register(reader, lambda: got.put(os.read(reader, 1))))
        for number in range(100):
            for send in (to_one.send, to_one.send, to_two.send, partial(os.write, writer)):
                send(b"%d" % (number % 10))
                assert got.get(timeout=TIMEOUT) == b"%d" % (number % 10)
            fired = threading.Event()
            loop.call_later(0.0, partial(fire, fired, number % 2 == 0))
            assert fired.wait(TIMEOUT)
        loop.run(lambda: loop.unregister(reader))
    os.close(reader)
    os.close(writer)


def test_what_arrives_at_a_socket_while_the_io_thread_sends_on_it_is_not_missed(loop: Loop) -> None:
    got: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with pair(loop, "looks") as (one, to_one), pair(loop, "other") as (two, to_two):

        def answer(message: bytes) -> None:
            two.send(message)  # takes in, and so hides, the news of what came to it meanwhile
            got.put(message)

        def take() -> bool:
            looking(one, answer)()
            return False

        loop.run(lambda: loop.register(one, take, looks=True))
        loop.run(lambda: loop.register(two, lambda: got.put(two.recv())))
        for _ in range(300):
            to_one.send(b"x")
            to_two.send(b"y")
            assert {got.get(timeout=TIMEOUT), got.get(timeout=TIMEOUT)} == {b"x", b"y"}
            assert to_two.recv() == b"x"
