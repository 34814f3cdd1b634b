"""Small tables follow the state of the tables, and take a share of the time at most."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pzc.pipeline.storage import Storage
from pzc.pipeline.tables.small import SHARE, SmallTables
from pzc.pipeline.tables.state import State

from tests.pipeline.test_state import part, report

TAKES = 2.0
RESTS = TAKES / SHARE - TAKES


class Slow:
    """A clock and a disk: each folder that is made takes half a second, so the four tables take two."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SlowDisk(Storage):
    def __init__(self, clock: Slow) -> None:
        self._clock = clock

    def make_folder(self, folder: Path) -> None:
        self._clock.now += TAKES / 4
        super().make_folder(folder)


class Written:
    """Tables of a state that grows by one number at a time."""

    def __init__(self, root: Path) -> None:
        self.clock, self.state, self.root = Slow(), State(), root
        self.tables = SmallTables(root, SlowDisk(self.clock), self.clock)

    def grow(self, number: int) -> None:
        self.state.absorb(report(0, part({number})))
        self.tables.changed(self.state)

    @property
    def count(self) -> int:
        """What the table says of how many there were."""
        return pq.read_table(self.root / "statistics" / "all.parquet")["count"].to_pylist()[0]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    found = Written(tmp_path)
    found.grow(1)
    return found


def test_small_tables_rest_for_nine_times_as_long_as_they_took(written: Written) -> None:
    written.grow(2)
    written.clock.now = TAKES + RESTS - 0.1
    written.grow(3)
    assert written.count == 1
    written.clock.now = TAKES + RESTS
    written.grow(4)
    assert written.count == 4


def test_small_tables_catch_up_when_nothing_more_comes(written: Written) -> None:
    written.grow(2)
    written.tables.catch_up(written.state)
    assert written.count == 1
    written.clock.now = TAKES + RESTS
    written.tables.catch_up(written.state)
    assert written.count == 2


def test_small_tables_are_whole_at_the_end_of_a_run(written: Written) -> None:
    written.grow(2)
    written.tables.catch_up(written.state, at_once=True)
    assert written.count == 2


def test_small_tables_that_are_not_behind_are_not_written(written: Written) -> None:
    written.clock.now = 1000.0
    written.tables.catch_up(written.state, at_once=True)
    assert written.clock.now == 1000.0
