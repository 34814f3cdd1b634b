"""IntervalSet of numbers behave as the set of their numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pzc.pipeline.tables.interval_set import IntervalSet

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)).map(lambda one: (one[0], one[0] + one[1])))


def made(spans: list[tuple[int, int]]) -> tuple[IntervalSet, set[int]]:
    ranges, numbers = IntervalSet(), set()
    for first, last in spans:
        ranges.add(first, last)
        numbers |= set(range(first, last + 1))
    return ranges, numbers


@given(SPANS)
def test_ranges_hold_what_was_added_and_nothing_else(spans: list[tuple[int, int]]) -> None:
    ranges, numbers = made(spans)
    assert {number for first, last in ranges for number in range(first, last + 1)} == numbers
    assert [ranges.covers(number, number) for number in range(50)] == [
        number in numbers for number in range(50)
    ]
    assert (ranges.count, ranges.last) == (len(numbers), max(numbers, default=None))


@given(SPANS)
def test_ranges_are_as_few_as_can_be_and_in_order(spans: list[tuple[int, int]]) -> None:
    found = list(made(spans)[0])
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(found))


@given(SPANS, st.integers(0, 45), st.integers(0, 10))
def test_an_overlap_is_what_both_have(spans: list[tuple[int, int]], first: int, more: int) -> None:
    ranges, numbers = made(spans)
    both = {number for low, high in ranges.overlap(first, first + more) for number in range(low, high + 1)}
    assert both == numbers & set(range(first, first + more + 1))


@given(SPANS)
def test_holes_are_what_is_absent_between_the_ends(spans: list[tuple[int, int]]) -> None:
    ranges, numbers = made(spans)
    absent = {number for first, last in ranges.holes() for number in range(first, last + 1)}
    assert absent == set(range(min(numbers, default=0), max(numbers, default=-1) + 1)) - numbers


@given(SPANS)
def test_ranges_come_back_from_their_flat_form(spans: list[tuple[int, int]]) -> None:
    ranges, _ = made(spans)
    assert list(IntervalSet(ranges.flat())) == list(ranges)
