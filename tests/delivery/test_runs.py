"""What is kept in order: as a list, whose first places go."""

from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery import runs
from pzc.delivery.runs import Run


class Thing:
    pass


STEPS = st.lists(st.tuples(st.integers(0, 40), st.floats(0, 1), st.floats(0, 1)), max_size=60)


@given(STEPS)
def test_a_run_is_a_list_whose_first_places_go(steps: list[tuple[int, float, float]]) -> None:
    spare, runs._SPARE = runs._SPARE, 8
    try:
        kept, expected, number = Run[int](), list[int](), 0
        for added, dropped, looked in steps:
            for each in range(number, number + added):
                kept.append(each)
                expected.append(each)
            number += added
            count = int(dropped * len(expected))
            kept.drop(count)
            del expected[:count]
            start = int(looked * len(expected))
            assert len(kept) == len(expected)
            assert kept.part(start, start + 7) == expected[start : start + 7]
            assert kept.part(0, len(expected)) == expected
            assert not expected or kept.first == expected[0]
    finally:
        runs._SPARE = spare


def test_what_is_dropped_is_freed_at_once() -> None:
    kept = Run[Thing]()
    things = [Thing() for _ in range(10)]
    dead = [weakref.ref(each) for each in things]
    while things:
        kept.append(things.pop(0))
    kept.drop(4)
    assert [ref() is None for ref in dead] == [True] * 4 + [False] * 6


def test_what_was_dropped_takes_no_more_room_than_what_is_kept() -> None:
    kept = Run[int]()
    for number in range(100_000):
        kept.append(number)
        if number >= 10:
            kept.drop(1)
    assert len(kept._places) <= runs._SPARE + 2 * len(kept)
    assert kept.part(0, 10) == list(range(99_990, 100_000))
