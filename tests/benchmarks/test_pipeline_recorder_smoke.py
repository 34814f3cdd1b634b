"""The recorder's benchmark runs, and what it says to be recorded is; how fast it is plays no part."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pipeline_recorder import Case, run

pytestmark = [pytest.mark.once, pytest.mark.slow]


@pytest.mark.parametrize("case", [Case("small", 2, 2000.0, 0, 1.0), Case("large", 1, 20.0, 1 << 20, None)])
def test_a_case_records_everything_that_was_published(tmp_path: Path, case: Case) -> None:
    line, _ = run(case, 0.5, tmp_path, 1e9)
    assert line[6] == "yes"
