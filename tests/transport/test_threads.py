"""Waits in slices, as on a system where no signal interrupts one."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from pzc.transport.threads import SlicedFuture, acquired, waited

TIMEOUT = 20.0
SLICE = 0.01


def test_a_wait_is_done_in_slices_until_it_need_wait_no_longer() -> None:
    asked: list[float] = []
    assert waited(lambda seconds: asked.append(seconds) or len(asked) == 5, None, SLICE)
    assert asked == [SLICE] * 5


def test_a_wait_ends_with_its_time() -> None:
    asked: list[float] = []
    assert not waited(
        lambda seconds: asked.append(seconds) or threading.Event().wait(seconds), 3.5 * SLICE, SLICE
    )
    assert 0 < asked[-1] < SLICE


def test_a_wait_that_is_to_take_no_time_looks_once() -> None:
    asked: list[float] = []
    assert not waited(asked.append, 0.0)
    assert asked == [0.0]


def test_where_a_signal_interrupts_a_wait_it_is_done_in_one_piece() -> None:
    asked: list[float] = []
    assert waited(lambda seconds: asked.append(seconds) or True, None)
    assert asked[0] > 1e6


def test_a_lock_that_is_free_is_taken_and_one_that_is_held_is_not() -> None:
    lock = threading.Lock()
    assert acquired(lock, TIMEOUT)
    assert not acquired(lock, 2 * SLICE)


def test_a_sliced_future_gives_what_came_while_it_was_waited_for() -> None:
    future = SlicedFuture[int]()
    thread = threading.Thread(target=future.set_result, args=(3,))
    thread.start()
    assert future.result(TIMEOUT) == 3
    assert future.exception(TIMEOUT) is None
    thread.join()


def test_a_sliced_future_raises_and_gives_its_error_also_one_that_says_a_time_is_over() -> None:
    future = SlicedFuture[int]()
    error = TimeoutError("of the call")
    future.set_exception(error)
    assert future.exception() is error
    with pytest.raises(TimeoutError, match="of the call"):
        future.result()


def test_a_sliced_future_that_is_not_done_in_time_says_so() -> None:
    with pytest.raises(TimeoutError):
        SlicedFuture[int]().result(SLICE)
    with pytest.raises(TimeoutError):
        SlicedFuture[int]().exception(SLICE)


def test_a_sliced_future_that_is_cancelled_is_waited_for_no_longer() -> None:
    future = SlicedFuture[int]()
    future.cancel()
    with pytest.raises(CancelledError):
        future.result()
