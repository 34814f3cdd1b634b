from __future__ import annotations

import gc
import os
import queue
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import zmq

from pzc import AgentClosed, CallTimeout
from pzc.agents import loop as loops
from pzc.agents.loop import Loop

from tests.agents.calling import TIMEOUT, run_in_fork


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


def test_work_apart_runs_before_its_end_and_both_in_the_io_thread(loop: Loop) -> None:
    leader = loop.run(threading.current_thread)
    seen: list[tuple[str, bool, bool]] = []
    done = threading.Event()

    def note(what: str) -> None:
        seen.append((what, threading.current_thread() is leader, loop.in_thread()))

    loop.call(lambda: loop.run_apart(partial(note, "work"), lambda: (note("end"), done.set())))
    assert done.wait(TIMEOUT)
    assert [(what, inside) for what, _, inside in seen] == [("work", False), ("end", True)]


def held_up(loop: Loop) -> tuple[threading.Thread, threading.Event, threading.Event]:
    """The thread that slow work has taken from the loop, what ends the work, and what its end sets."""
    entered, opened, ended = threading.Event(), threading.Event(), threading.Event()
    old: list[threading.Thread] = []

    def work() -> None:
        old.append(threading.current_thread())
        entered.set()
        assert opened.wait(TIMEOUT)

    loop.call(lambda: loop.run_apart(work, ended.set))
    assert entered.wait(TIMEOUT)
    return old[0], opened, ended


def test_another_thread_takes_over_while_work_apart_is_slow(loop: Loop) -> None:
    old, opened, ended = held_up(loop)
    leader = loop.run(threading.current_thread)
    assert leader is not old
    assert not ended.is_set()
    opened.set()
    assert ended.wait(TIMEOUT)
    old.join(TIMEOUT)
    assert not old.is_alive()
    assert loop.run(threading.current_thread) is leader


def test_sockets_and_timers_go_on_after_a_take_over(loop: Loop) -> None:
    got: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    one, two = loop.context.socket(zmq.PAIR), loop.context.socket(zmq.PAIR)
    one.bind("inproc://pair")
    two.connect("inproc://pair")
    loop.run(lambda: loop.register(one, lambda: got.put(one.recv())))
    fired = threading.Event()
    loop.call_later(0.2, fired.set)
    for _ in range(3):
        _, opened, ended = held_up(loop)
        two.send(b"meanwhile")
        assert got.get(timeout=TIMEOUT) == b"meanwhile"
        opened.set()
        assert ended.wait(TIMEOUT)
    two.send(b"afterwards")
    assert got.get(timeout=TIMEOUT) == b"afterwards"
    assert fired.wait(TIMEOUT)
    loop.run(lambda: loop.unregister(one))
    one.close(0)
    two.close(0)


def test_work_behind_slow_work_is_run_by_the_new_thread(loop: Loop) -> None:
    entered, opened, second = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        assert opened.wait(TIMEOUT)

    def both() -> None:
        loop.run_apart(slow, int)
        loop.run_apart(int, second.set)

    loop.call(both)
    assert entered.wait(TIMEOUT)
    assert second.wait(TIMEOUT)
    opened.set()
    loop.run(lambda: None)


def test_work_apart_may_wait_for_the_io_thread(loop: Loop) -> None:
    found: queue.SimpleQueue[int] = queue.SimpleQueue()
    for _ in range(3):
        loop.call(lambda: loop.run_apart(lambda: found.put(loop.run(lambda: 7)), int))
        assert found.get(timeout=TIMEOUT) == 7


def test_work_apart_that_raises_is_counted_and_its_end_comes(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise SystemExit

    before, ended = loop.errors, threading.Event()
    loop.call(lambda: loop.run_apart(fail, ended.set))
    assert ended.wait(TIMEOUT)
    assert loop.errors == before + 1


def test_no_work_and_no_end_is_lost_when_threads_take_over_again_and_again(loop: Loop) -> None:
    worked: list[int] = []
    ended: list[int] = []
    done, pause = threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number % 10 == 0:
            pause.wait(loops.TAKE_OVER * 2)
        worked.append(number)

    def end(number: int) -> None:
        assert loop.in_thread()
        ended.append(number)
        if len(ended) == 100:
            done.set()

    def submit(number: int) -> None:
        loop.run_apart(partial(work, number), partial(end, number))

    for number in range(100):
        loop.call(partial(submit, number))
    assert done.wait(TIMEOUT)
    assert sorted(worked) == sorted(ended) == list(range(100))


def test_the_thread_that_stands_by_sleeps_and_is_woken(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_STAND_BY", 0.0)
    ended, pause = threading.Event(), threading.Event()
    loop.call(lambda: loop.run_apart(int, ended.set))
    assert ended.wait(TIMEOUT)
    for _ in range(int(TIMEOUT / 0.005)):
        if not loop._watched:
            break
        pause.wait(0.005)
    assert not loop._watched
    old, opened, _ = held_up(loop)
    assert loop.run(threading.current_thread) is not old
    opened.set()


def test_a_loop_ends_while_work_apart_is_slow() -> None:
    loop = loops.acquire()
    old, opened, _ = held_up(loop)
    loops.release(loop)
    assert old.is_alive()
    opened.set()
    old.join(TIMEOUT)
    assert not old.is_alive()


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
