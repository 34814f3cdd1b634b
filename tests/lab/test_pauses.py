"""When a process of a lab is started again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pzc.lab.process import Pauses


def test_pauses_double_up_to_the_longest() -> None:
    pauses = Pauses()
    assert [pauses.after(0.5) for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_whoever_ran_long_enough_is_started_again_soon() -> None:
    pauses = Pauses()
    assert [pauses.after(ran) for ran in (0.1, 0.1, 60.0, 0.1)] == [1.0, 2.0, 1.0, 2.0]


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_pause_is_never_shorter_than_the_first_or_longer_than_the_longest(ran: list[float]) -> None:
    pauses = Pauses()
    assert all(1.0 <= pauses.after(each) <= 60.0 for each in ran)
