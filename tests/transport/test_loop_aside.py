from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

import pytest
import zmq

from pzc.protocol.errors import CallTimeout
from pzc.transport import loops
from pzc.transport.loop import _IO_TAKE_OVER, Loop

from tests.contract.rigs.calling import TIMEOUT


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = loops.acquire()
    yield found
    loops.release(found)


def run_aside(loop: Loop, work: Callable[[], object], end: Callable[[], object]) -> None:
    """Run something in the I/O thread's time, then something else in the I/O thread."""
    loop.step_aside()
    work()
    if loop.step_back():
        end()
    else:
        loop.call(end)


def test_work_aside_is_not_in_the_io_thread_and_what_follows_is(loop: Loop) -> None:
    leader = loop.run(threading.current_thread)
    seen: list[tuple[str, bool, bool]] = []
    done = threading.Event()

    def note(what: str) -> None:
        seen.append((what, threading.current_thread() is leader, loop.in_thread()))

    loop.call(lambda: run_aside(loop, partial(note, "work"), lambda: (note("end"), done.set())))
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

    loop.call(lambda: run_aside(loop, work, ended.set))
    assert entered.wait(TIMEOUT)
    return old[0], opened, ended


def test_another_thread_takes_over_while_work_aside_is_slow(loop: Loop) -> None:
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

    loop.call(lambda: run_aside(loop, slow, int))
    loop.call(lambda: run_aside(loop, int, second.set))
    assert entered.wait(TIMEOUT)
    assert second.wait(TIMEOUT)
    opened.set()
    loop.run(lambda: None)


def test_work_aside_may_wait_for_the_io_thread(loop: Loop) -> None:
    found: queue.SimpleQueue[int] = queue.SimpleQueue()
    for _ in range(3):
        loop.call(lambda: run_aside(loop, lambda: found.put(loop.run(lambda: 7)), int))
        assert found.get(timeout=TIMEOUT) == 7


def test_a_thread_that_was_held_up_cannot_step_aside_for_another(loop: Loop) -> None:
    aside = threading.Event()

    def slow() -> None:
        loop.run(lambda: None)  # another thread is the I/O thread now
        loop.step_aside()
        aside.set()

    loop.call(lambda: run_aside(loop, slow, int))
    assert aside.wait(TIMEOUT)
    assert loop.run(loop.in_thread)


def test_no_work_and_no_end_is_lost_when_threads_take_over_again_and_again(loop: Loop) -> None:
    worked: list[int] = []
    ended: list[int] = []
    done, pause = threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number % 10 == 0:
            pause.wait(_IO_TAKE_OVER * 2)
        worked.append(number)

    def end(number: int) -> None:
        assert loop.in_thread()
        ended.append(number)
        if len(ended) == 100:
            done.set()

    def submit(number: int) -> None:
        run_aside(loop, partial(work, number), partial(end, number))

    for number in range(100):
        loop.call(partial(submit, number))
    assert done.wait(TIMEOUT)
    assert sorted(worked) == sorted(ended) == list(range(100))


def test_a_thread_that_leads_before_its_start_was_noted_does_not_stand_by_as_well(loop: Loop) -> None:
    def late(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is threading.Thread.start.__code__:
            sys.setprofile(None)
            with contextlib.suppress(CallTimeout):
                loop.run(int, 10 * _IO_TAKE_OVER)

    loop.call(lambda: sys.setprofile(late))
    for _ in range(2):
        old, opened, ended = held_up(loop)
        assert loop.run(threading.current_thread) is not old
        opened.set()
        assert ended.wait(TIMEOUT)


def test_a_timer_that_was_held_up_leaves_the_others_to_the_new_thread(loop: Loop) -> None:
    entered, opened, fired = threading.Event(), threading.Event(), queue.SimpleQueue[bool]()

    def slow() -> None:
        entered.set()
        assert opened.wait(TIMEOUT)

    def start() -> None:
        for _ in range(2):
            loop.call_later(0.0, lambda: run_aside(loop, slow, lambda: fired.put(loop.in_thread())))

    loop.call(start)
    assert entered.wait(TIMEOUT)
    leader = loop.run(threading.current_thread)
    opened.set()
    assert [fired.get(timeout=TIMEOUT) for _ in range(2)] == [True, True]
    assert leader.is_alive()


def test_a_loop_ends_while_work_aside_is_slow() -> None:
    loop = loops.acquire()
    old, opened, _ = held_up(loop)
    loops.release(loop)
    assert old.is_alive()
    opened.set()
    old.join(TIMEOUT)
    assert not old.is_alive()
