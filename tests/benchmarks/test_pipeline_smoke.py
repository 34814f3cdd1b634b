"""The pipeline's benchmark runs, and its tables hold what is in the journal; how fast it is plays no part."""

from __future__ import annotations

from pathlib import Path

import pytest

from pzc.pipeline.tables.work import Inline
from pzc.testing.journals import Recording, write_journal

from benchmarks.pipeline import alone, delay, following, one_process

pytestmark = [pytest.mark.once, pytest.mark.slow]

SIZES = [2000, 4000]


@pytest.mark.timeout(60)
def test_journals_of_each_size_are_brought_into_tables(tmp_path: Path) -> None:
    journals = {
        size: (
            tmp_path / f"journal-{size}",
            write_journal(tmp_path / f"journal-{size}", Recording(published=size)),
        )
        for size in SIZES
    }
    found = following(Inline(), tmp_path, SIZES, journals)
    found += one_process(journals[SIZES[0]][0]) + alone(tmp_path, *journals[SIZES[0]])
    assert len(found) == len(SIZES) + 3


@pytest.mark.timeout(60)
def test_the_way_from_publishing_to_a_row_is_timed(tmp_path: Path) -> None:
    (line,) = delay(Inline(), tmp_path, 1.0)
    assert line.found.startswith("p50")
