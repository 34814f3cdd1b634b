"""The benchmark of readers of all kinds at once runs; how fast anything is plays no part."""

from __future__ import annotations

import pytest

from benchmarks.notification_cases import Effort
from benchmarks.rounds import run_case
from benchmarks.together import MIXED, TOGETHER, TogetherCase

pytestmark = [pytest.mark.once, pytest.mark.slow]

TINY = Effort({}, {64: 500}, 0, 0, 0, 0)


def test_all_readers_account_for_everything_whether_or_not_one_stands_still() -> None:
    outcome = run_case(TOGETHER, TINY, 2, None)
    assert not outcome.failures
    assert {name: len(values) for name, values in outcome.values.items()} == {"running": 2, "frozen": 2}


@pytest.mark.parametrize(
    ("case", "block"), [(MIXED[0], "block"), (MIXED[1], "wide block")], ids=["32 slots", "1000 slots"]
)
def test_readers_of_three_kinds_are_measured_together_and_each_alone(case: TogetherCase, block: str) -> None:
    outcome = run_case(case, TINY, 1, None)
    assert not outcome.failures
    assert set(outcome.values) == {"all", block, "broadcast", "mailbox"}
