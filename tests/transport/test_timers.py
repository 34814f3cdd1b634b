from __future__ import annotations

import math

import pytest

from pzc import ConfigError
from pzc.transport.timers import LONGEST, Timer, Timers


def nothing() -> None:
    return None


@pytest.mark.parametrize("delay", [1e9, 1e300, math.inf])
def test_a_wait_for_what_is_due_in_ages_is_bounded(delay: float) -> None:
    timers = Timers()
    timers.push(Timer(delay, nothing))
    assert timers.wait_ms() == LONGEST * 1000
    assert list(timers.due()) == []


def test_a_delay_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="delay=nan"):
        Timer(math.nan, nothing)


@pytest.mark.parametrize("delay", [0.0, -1.0, -math.inf])
def test_what_is_due_in_the_past_is_due_now(delay: float) -> None:
    timers = Timers()
    timers.push(Timer(delay, nothing))
    assert timers.wait_ms() == 0
    assert list(timers.due()) == [nothing]
    assert not timers


def test_without_timers_a_wait_has_no_end() -> None:
    assert Timers().wait_ms() is None


def test_of_those_that_are_due_at_the_same_time_the_first_comes_first() -> None:
    timers, functions = Timers(), [lambda number=number: number for number in range(10)]
    for function in functions:
        timers.push(Timer(-math.inf, function))
    assert list(timers.due()) == functions


def test_a_cancelled_one_keeps_nothing_alive_and_is_not_due() -> None:
    timers, timer = Timers(), Timer(0.0, nothing)
    timers.push(timer)
    timer.cancel()
    assert list(timers.due()) == []
    assert timer.function is not nothing
