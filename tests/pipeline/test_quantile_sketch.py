"""Figures that were added up are those of all numbers together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.pipeline.tables.quantile_sketch import Figures, figures_of

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
GROUPS = st.lists(st.lists(NUMBERS | st.just(math.nan), min_size=1), min_size=1, max_size=5)


def together(groups: list[list[float]]) -> Figures:
    starts = np.cumsum([0, *map(len, groups[:-1])])
    total = Figures()
    for figures in figures_of(np.array([x for group in groups for x in group], np.float64), starts):
        total.add(figures)
    return total


@given(GROUPS)
def test_figures_of_parts_add_up_to_those_of_the_whole(groups: list[list[float]]) -> None:
    numbers = np.array([x for group in groups for x in group if not math.isnan(x)], np.float64)
    total = together(groups)
    assert total.count == len(numbers)
    if len(numbers):
        size = float(np.abs(numbers).max())
        assert (total.least, total.greatest) == (numbers.min(), numbers.max())
        assert total.mean == pytest.approx(numbers.mean(), abs=1e-9 * size)
        assert total.std() == pytest.approx(numbers.std(), rel=1e-6, abs=1e-6 * size)


@given(GROUPS, st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_within_a_hundredth_of_a_number_that_was_there(
    groups: list[list[float]], share: float
) -> None:
    numbers = np.sort([x for group in groups for x in group if not math.isnan(x)])
    found = together(groups).quantile(share)
    if not len(numbers):
        assert found is None
        return
    exact = numbers[int(share * (len(numbers) - 1))]
    assert found == pytest.approx(exact, rel=0.0101, abs=1e-300)


def test_infinite_numbers_count_and_break_nothing() -> None:
    total = together([[math.inf, 1.0], [-math.inf]])
    assert (total.count, total.least, total.greatest) == (3, -math.inf, math.inf)
    assert total.quantile(0.5) == pytest.approx(1.0, rel=0.0101)


@pytest.mark.parametrize(
    "groups", [[[math.inf, 1.0, 2.0]], [[math.inf], [1.0, 2.0]], [[1.0, 2.0], [math.inf]]]
)
def test_with_an_infinite_number_the_mean_is_infinite_and_the_deviation_no_number(
    groups: list[list[float]],
) -> None:
    total = together(groups)
    assert (total.mean, total.std()) == (math.inf, pytest.approx(math.nan, nan_ok=True))
