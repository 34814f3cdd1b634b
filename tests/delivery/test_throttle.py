from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.throttle import Throttle
from pzc.protocol.errors import ConfigError


@pytest.mark.parametrize("begin", [0.0, 1_767_225_600.123, -5.0])
def test_25_messages_in_2_and_a_half_seconds_at_1_hz_give_exactly_3(begin: float) -> None:
    throttle = Throttle(1.0)
    assert sum(throttle.admit(begin + number / 10) for number in range(25)) == 3


def test_the_first_message_after_a_silence_passes_at_once() -> None:
    throttle = Throttle(1.0)
    assert [throttle.admit(now) for now in (0.0, 100.5, 100.75, 101.5)] == [True, True, False, True]


@given(st.lists(st.floats(0, 10), max_size=100), st.sampled_from([0.5, 1.0, 4.0]))
def test_two_admitted_messages_lie_at_least_a_period_apart(moments: list[float], rate: float) -> None:
    throttle = Throttle(rate)
    passed = [now for now in sorted(moments) if throttle.admit(now)]
    assert all(later >= now + 1 / rate for now, later in pairwise(passed))


def test_a_clock_that_is_set_back_costs_a_period_at_most() -> None:
    throttle = Throttle(1.0)
    moments = (1e6, 5.0, 5.5, 6.0, 6.5, 3.0, 3.75, 4.0)
    admitted = [now for now in moments if throttle.admit(now)]
    assert admitted == [1e6, 6.0, 4.0]


@pytest.mark.parametrize("rate", [0, -1.0, float("nan")])
def test_a_rate_of_nothing_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="more than 0 messages per second"):
        Throttle(rate)
