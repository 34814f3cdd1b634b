from __future__ import annotations

import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.meters import SPAN, Histogram, Intervals, Meter, Rate, Spread

_ages = st.floats(2.0**-20, 2.0**15, exclude_max=True)


@given(st.lists(_ages, min_size=1), st.floats(0.01, 1.0))
def test_a_quantile_is_within_its_error_of_the_value_of_that_rank(values: list[float], part: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(1, math.ceil(part * len(values))) - 1]
    assert histogram.quantile(part) == pytest.approx(exact, rel=0.032)


@given(st.lists(st.floats(-1e6, 1e6)))
def test_count_minimum_mean_and_maximum_are_exact(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    counted = [max(0.0, value) for value in values]
    spread = histogram.spread()
    if not values:
        assert spread == Spread()
        return
    assert (spread.measured, spread.min, spread.max) == (len(values), min(counted), max(counted))
    assert spread.mean == pytest.approx(statistics.fmean(counted))
    assert spread.min <= spread.p99 <= spread.max


@given(st.lists(st.floats(allow_nan=False), max_size=2000))
def test_its_memory_has_a_bound(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    assert len(histogram._buckets) <= 577


def test_every_size_of_value_has_one_place() -> None:
    histogram = Histogram()
    for exponent in range(-30, 30):
        for step in range(64):
            histogram.add(math.ldexp(1 + step / 64, exponent))
    assert len(histogram._buckets) == 35 * 16 + 1


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 5), st.integers(0, 100)), min_size=1),
    st.integers(0, 5000),
)
def test_a_rate_is_what_came_in_the_whole_seconds_of_the_span(
    steps: list[tuple[int, int, int]], later: int
) -> None:
    meter, now, came = Meter(), 1000.0, list[tuple[float, int, int]]()
    for pause_ms, messages, size in steps:
        now += pause_ms / 1000
        meter.add(now, messages, size)
        came.append((now, messages, size))
    now += later / 1000
    assert (meter.messages, meter.bytes) == (sum(m for _, m, _ in came), sum(s for _, _, s in came))
    end = int(now)
    since = max(came[0][0], float(end - SPAN))
    if end - since < 1.0:
        counted, passed = came, max(1.0, now - since)
    else:
        counted = [each for each in came if int(since) <= int(each[0]) < end]
        passed = end - since
    expected = Rate(sum(m for _, m, _ in counted) / passed, sum(s for _, _, s in counted) / passed)
    assert meter.rate(now) == pytest.approx(expected)


def test_a_steady_stream_has_its_rate() -> None:
    meter = Meter()
    for number in range(4000):
        meter.add(50 + number / 100, 1, 8)
    assert meter.rate(90.0) == Rate(100.0, 800.0)


def test_a_stream_that_stopped_has_none() -> None:
    meter = Meter()
    assert meter.rate(0.0) == Rate()
    meter.add(0.0, 5, 5)
    assert meter.rate(SPAN + 2.0) == Rate(0.0, 0.0)


def test_a_step_back_of_the_clock_counts_all_the_same() -> None:
    meter = Meter()
    meter.add(100.5, 1, 1)
    meter.add(99.0, 1, 1)
    assert (meter.messages, meter.rate(101.5).messages) == (2, pytest.approx(2.0))


@given(st.lists(st.floats(0.001, 10.0), min_size=2, max_size=50))
def test_intervals_are_told_of_the_window(pauses: list[float]) -> None:
    intervals, now = Intervals(5.0), 0.0
    times = list[float]()
    for pause in pauses:
        now += pause
        intervals.add(now)
        times.append(now)
    intervals.forget(now)
    seen = [time for time in times if time >= now - 5.0]
    gaps = [later - earlier for earlier, later in pairwise(seen)]
    told = intervals.tell()
    assert told.messages == len(seen)
    if not gaps:
        assert told.rate_hz == 0.0
        return
    assert (told.min_s, told.max_s) == (min(gaps), max(gaps))
    assert told.std_s == pytest.approx(statistics.pstdev(gaps), abs=1e-9)
    assert told.rate_hz == pytest.approx(len(gaps) / (seen[-1] - seen[0]))


def test_intervals_remember_so_many_and_no_more() -> None:
    intervals = Intervals(math.inf, most=3)
    for time in range(10):
        intervals.add(float(time))
    assert list(intervals.times) == [7.0, 8.0, 9.0]


def test_messages_of_one_moment_have_no_rate() -> None:
    intervals = Intervals(1.0)
    intervals.add(1.0)
    intervals.add(1.0)
    assert intervals.tell().rate_hz == 0.0
