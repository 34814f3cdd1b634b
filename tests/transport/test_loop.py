from __future__ import annotations

import gc
import math
import os
import threading
from collections.abc import Iterator

import pytest
import zmq

from pzc import AgentClosed, CallTimeout, ConfigError
from pzc.transport import loops
from pzc.transport.loop import Loop

from tests.contract.rigs.alarms import Alarm, alarm
from tests.contract.rigs.calling import TIMEOUT, run_in_fork, until


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = loops.acquire()
    yield found
    loops.release(found)


def test_functions_run_in_the_io_thread_in_order(loop: Loop) -> None:
    seen: list[tuple[int, str]] = []
    for number in range(100):
        loop.call(lambda number=number: seen.append((number, threading.current_thread().name)))
    loop.run(lambda: None)
    assert seen == [(number, "pzc-io") for number in range(100)]


def test_no_call_of_many_threads_is_lost(loop: Loop) -> None:
    count = 0

    def add() -> None:
        nonlocal count
        count += 1

    threads = [threading.Thread(target=lambda: [loop.call(add) for _ in range(2000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    loop.run(lambda: None)
    assert count == 16_000


def test_run_gives_the_result(loop: Loop) -> None:
    assert loop.run(lambda: 7) == 7


def test_run_raises_what_the_function_raised(loop: Loop) -> None:
    with pytest.raises(ZeroDivisionError):
        loop.run(lambda: 1 // 0)


def test_a_timeout_of_the_function_is_not_taken_for_one_of_the_loop(loop: Loop) -> None:
    def late() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        loop.run(late)


def test_run_from_inside_runs_at_once(loop: Loop) -> None:
    assert loop.run(lambda: loop.run(lambda: 7)) == 7


def test_run_ends_with_an_error_when_the_thread_is_held_up(loop: Loop) -> None:
    entered, opened = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        opened.wait(TIMEOUT)

    loop.call(hold)
    assert entered.wait(TIMEOUT)
    with pytest.raises(CallTimeout):
        loop.run(lambda: None, timeout=0.01)
    opened.set()


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_function_that_raises_is_counted_and_ends_nothing(
    loop: Loop, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    before = loop.errors
    loop.call(fail)
    assert loop.run(lambda: 7) == 7
    assert loop.errors == before + 1


def test_timers_fire_in_the_order_of_their_times(loop: Loop) -> None:
    seen: list[int] = []
    done = threading.Event()
    loop.call_later(0.03, done.set)
    loop.call_later(0.02, lambda: seen.append(2))
    loop.call_later(0.01, lambda: seen.append(1))
    assert done.wait(TIMEOUT)
    assert seen == [1, 2]


def test_a_cancelled_timer_never_fires(loop: Loop) -> None:
    seen: list[int] = []
    done = threading.Event()
    timer = loop.call_later(0.01, lambda: seen.append(1))
    timer.cancel()
    loop.call_later(0.02, done.set)
    assert done.wait(TIMEOUT)
    assert seen == []


def test_a_handler_gets_a_readable_socket_until_it_is_unregistered(loop: Loop) -> None:
    got: list[bytes] = []
    arrived = threading.Event()
    one, two = loop.context.socket(zmq.PAIR), loop.context.socket(zmq.PAIR)
    one.bind("inproc://pair")
    two.connect("inproc://pair")

    def read() -> None:
        got.append(one.recv())
        arrived.set()

    loop.run(lambda: loop.register(one, read))
    two.send(b"a")
    assert arrived.wait(TIMEOUT)
    loop.run(lambda: loop.unregister(one))
    two.send(b"b")
    loop.run(lambda: None)
    assert got == [b"a"]
    one.close(0)
    two.close(0)


def test_all_users_share_one_loop(loop: Loop) -> None:
    other = loops.acquire()
    assert other is loop
    loops.release(other)
    assert loop.run(lambda: 7) == 7


def test_the_last_release_ends_the_thread_and_the_next_user_gets_a_new_loop() -> None:
    first = loops.acquire()
    loops.release(first)
    assert not any(thread.name.startswith("pzc-io") for thread in threading.enumerate())
    second = loops.acquire()
    assert second is not first
    loops.release(second)


def test_the_io_thread_cannot_release_its_own_loop(loop: Loop) -> None:
    with pytest.raises(AgentClosed):
        loop.run(lambda: loops.release(loop))


def test_a_call_on_an_ended_loop_writes_into_no_descriptor() -> None:
    ended = loops.acquire()
    loops.release(ended)
    pipes = [os.pipe() for _ in range(4)]  # these get the numbers that the loop's own pipe had
    for reader, _ in pipes:
        os.set_blocking(reader, False)
    ended.call(lambda: None)
    for reader, writer in pipes:
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
        os.close(reader)
        os.close(writer)


def test_run_on_an_ended_loop_is_an_error_at_once() -> None:
    ended = loops.acquire()
    loops.release(ended)
    with pytest.raises(AgentClosed):
        ended.run(lambda: None)


def test_a_finaliser_that_calls_the_loop_inside_a_call_does_not_block(loop: Loop) -> None:
    called = threading.Event()

    class Dropped:
        def __del__(self) -> None:
            loop.call(called.set)

    def inside() -> None:
        with loop._pipe:
            Dropped()
            gc.collect()

    inside()
    assert called.wait(TIMEOUT)


def test_a_forked_child_gets_a_loop_of_its_own(loop: Loop) -> None:
    def child() -> None:
        own = loops.acquire()
        assert own is not loop
        assert own.run(lambda: 7) == 7
        loops.release(own)

    assert run_in_fork(child) == 0


def test_the_parents_loop_does_nothing_in_a_forked_child(loop: Loop) -> None:
    def child() -> None:
        loop.call(lambda: None)
        with pytest.raises(AgentClosed):
            loop.run(lambda: None)

    assert run_in_fork(child) == 0


def test_a_forked_child_has_no_io_thread(loop: Loop) -> None:
    def check() -> None:
        assert not loop.in_thread()
        assert loop._leader == 0

    assert run_in_fork(check) == 0


@pytest.mark.parametrize("delay", [1e9, 1e300, math.inf])
def test_a_timer_that_is_due_in_ages_does_not_end_the_thread(loop: Loop, delay: float) -> None:
    timer = loop.call_later(delay, lambda: None)
    assert loop.run(lambda: 7) == 7
    done = threading.Event()
    loop.call_later(0.01, done.set)
    assert done.wait(TIMEOUT)
    timer.cancel()


def test_a_delay_that_is_no_number_is_refused_where_it_was_given(loop: Loop) -> None:
    with pytest.raises(ConfigError, match="delay=nan"):
        loop.call_later(math.nan, lambda: None)
    assert loop.run(lambda: 7) == 7


def test_a_socket_that_was_closed_while_it_was_watched_costs_one_error(loop: Loop) -> None:
    closed = loop.context.socket(zmq.PAIR)
    loop.run(lambda: loop.register(closed, lambda: None))
    before = loop.errors
    closed.close(0)
    for _ in range(100):
        assert loop.run(lambda: 7) == 7
    assert loop.errors == before + 1
    assert closed not in loop._handlers


def test_a_wait_that_fails_does_not_end_the_thread(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def fail() -> int:
        failed.set()
        raise OverflowError("of a clock that is out of order")

    with monkeypatch.context() as patch:
        patch.setattr(loop._timers, "wait_ms", fail)
        loop.call(lambda: None)
        assert failed.wait(TIMEOUT)
    assert loop.run(lambda: 7) == 7


def test_what_a_loop_is_asked_for_is_done_though_it_cannot_wait_any_more() -> None:
    loop = Loop()
    socket = loop.run(lambda: loop.context.socket(zmq.PAIR))
    loop.run(lambda: loop.register(socket, bool))
    ending = threading.Thread(target=loop.context.term)
    ending.start()
    until(lambda: loop.errors > 0)

    def close() -> None:
        loop.unregister(socket)
        socket.close(0)

    loop.run(close)
    ending.join(TIMEOUT)
    assert not ending.is_alive()
    loop.end()


def test_a_loop_whose_end_was_interrupted_ends_and_does_all_that_it_was_asked_for() -> None:
    """Python's `join` takes a thread for over from then on."""
    loop, may, done = Loop("pzc-io"), threading.Event(), threading.Event()
    loop.call(lambda: may.wait(TIMEOUT))
    with pytest.raises(Alarm), alarm(0.1):
        loop.end()
    loop.call(done.set)
    loop.end()
    may.set()
    assert done.wait(TIMEOUT)
    assert not loop.errors
