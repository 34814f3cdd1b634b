"""The discovery benchmark runs and leaves nothing; how fast anything is plays no part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import discovery
from benchmarks.children import ChildFailure
from benchmarks.discovery_cases import CASES, QUICK, Effort, Figure, measure, percentile

ROOT = Path(__file__).resolve().parents[2]
TINY = Effort(callers=1, topics=5, seconds=1.5, processes=2, agents=2, settled=0.1)
KEY = "of the smoke test"

pytestmark = [pytest.mark.once, pytest.mark.slow]


@pytest.mark.parametrize("case", ["first-call", "traffic"])
def test_every_figure_of_a_case_has_a_value_in_every_round(case: str) -> None:
    found = measure(case, TINY, 1, KEY)
    assert list(found) == [figure.key for figure in CASES[case].figures]
    assert all(len(values) == 1 and values[0] > 0 for values in found.values())


def test_a_crowd_sees_all_of_itself() -> None:
    found = measure("crowd", TINY, 1, KEY)
    assert (found["missing"], found["lost"]) == ([0], [0])
    assert found["core"][0] >= found["machine"][0] > 0


def test_a_case_that_cannot_be_measured_says_why() -> None:
    with pytest.raises(ChildFailure, match="announces 0 topics"):
        measure("traffic", Effort(1, -1, 0.1, 1, 1, 0.0), 1, KEY)


def test_a_percentile_is_a_value_that_so_many_do_not_exceed() -> None:
    assert percentile([float(n) for n in range(1, 101)], 95) == 95
    assert percentile([3.0, 1.0], 95) == 3
    assert percentile([2.0], 50) == 2


@pytest.mark.parametrize(("value", "judged"), [(5.0, "yes"), (5.5, "**no**")])
def test_a_limit_is_kept_up_to_its_value(value: float, judged: str) -> None:
    assert discovery.row(Figure("a", "{crowd} agents", "ms", 5), [value], QUICK)[0::3] == [
        "200 agents",
        judged,
    ]


def test_a_quick_run_is_no_measurement_for_the_page() -> None:
    command = [sys.executable, "-m", "benchmarks.discovery", "--quick", "--update-docs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 2
    assert "whole runs" in done.stderr


def test_the_page_has_a_part_for_the_table() -> None:
    page = (ROOT / "docs" / "discovery.md").read_text(encoding="utf-8")
    assert page.index("<!-- discovery: begin -->") < page.index("<!-- discovery: end -->")
