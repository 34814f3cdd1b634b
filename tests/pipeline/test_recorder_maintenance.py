"""Compaction and retention: what readers of a journal see, and that no row goes that should stay."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pzc.pipeline.recording.gaps import GapLog, GapRow, read_gaps
from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.recording.maintenance import BLOB_GRACE, Maintenance
from pzc.pipeline.recording.segments import BLOB_BYTES
from pzc.pipeline.schema import all_segments, compacted_name, segment_name, segment_recorder, segments

from tests.pipeline.conftest import a_row, append, sequences, written

START = time.time() // 86_400 * 86_400 + 43_200
COMPACT_AGE = 300.0
COVERED_GRACE = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def journal_of(home: Path, count: int, content: Callable[[int], bytes] = lambda n: b"%d" % n) -> None:
    """Segments of two rows each, written at `START`."""
    with Journal(home, recorder="r") as journal:
        for segment in range(count):
            for row in range(2):
                number = 2 * segment + row
                append(journal, a_row(number, content(number)))
            journal.commit()
    touch(home, START)


def touch(home: Path, at: float) -> None:
    for path in home.rglob("*"):
        if path.is_file():
            os.utime(path, (at, at))


def maintenance_of(home: Path, clock: Clock, **options: Any) -> Maintenance:
    return Maintenance(home, "r", clock=clock, **options)


def settle(maintenance: Maintenance) -> None:
    while maintenance.step():
        pass


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_small_neighbours_become_one_segment_of_the_same_rows(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 9)
    before = written(tmp_path)
    clock.now += COMPACT_AGE + 1
    maintenance = maintenance_of(tmp_path, clock, compact=True)
    settle(maintenance)
    assert written(tmp_path) == before
    assert [path.name for _, path in segments(tmp_path)] == [
        compacted_name("r", 0, 15),
        segment_name("r", 16),
    ]
    assert maintenance.compacted == 8


def test_segments_that_are_young_are_left_alone(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 9)
    clock.now += COMPACT_AGE - 1
    maintenance = maintenance_of(tmp_path, clock, compact=True)
    settle(maintenance)
    assert maintenance.compacted == 0


def test_whoever_has_an_old_list_finds_its_files_until_the_grace_is_over(
    tmp_path: Path, clock: Clock
) -> None:
    journal_of(tmp_path, 9)
    listed = [path for _, path in segments(tmp_path)]
    clock.now += COMPACT_AGE + 1
    maintenance = maintenance_of(tmp_path, clock, compact=True)
    settle(maintenance)
    assert list(tmp_path.glob("*.to-*"))
    clock.now += COVERED_GRACE - 1
    settle(maintenance)
    assert [path.exists() for path in listed] == [True] * 9
    clock.now += 2
    settle(maintenance)
    assert [path.exists() for path in listed] == [False] * 8 + [True]
    assert sequences(tmp_path) == list(range(18))


def test_offsets_go_on_behind_a_compacted_segment(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 3)
    clock.now += 86_400
    settle(maintenance_of(tmp_path, clock, compact=True))
    with Journal(tmp_path, recorder="r") as journal:
        assert append(journal, a_row(6)) == 6


def test_a_compacted_segment_is_as_old_as_its_newest_row(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 5)
    clock.now += 86_400
    maintenance = maintenance_of(tmp_path, clock, compact=True, keep_seconds=90_000.0)
    settle(maintenance)
    assert [path.stat().st_mtime for path in tmp_path.glob("*.to-*")] == [START]
    clock.now += 90_000 - 86_400 + 1
    os.utime(tmp_path / segment_name("r", 8), (clock.now, clock.now))
    settle(maintenance)
    assert sequences(tmp_path) == [8, 9]


def test_a_damaged_segment_is_left_alone_and_stops_neither_its_neighbours_nor_retention(
    tmp_path: Path, clock: Clock
) -> None:
    journal_of(tmp_path, 7)
    broken = tmp_path / segment_name("r", 4)
    broken.write_bytes(broken.read_bytes()[:-100])
    os.utime(broken, (START, START))
    clock.now += 86_400
    maintenance = maintenance_of(tmp_path, clock, compact=True, keep_seconds=90_000.0)
    settle(maintenance)
    assert [first for first, _ in segments(tmp_path)] == [0, 4, 6, 12]
    clock.now += 86_400
    os.utime(tmp_path / segment_name("r", 12), (clock.now, clock.now))
    settle(maintenance)
    assert [first for first, _ in segments(tmp_path)] == [12]


def without_footer(segment: Path) -> None:
    """Damage that pyarrow tells of as an error of the operating system."""
    whole = segment.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    segment.write_bytes(whole[: -8 - size] + b"\xff" * size + whole[-8:])


def a_table_of_others(segment: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), segment)


@pytest.mark.parametrize("damage", [without_footer, a_table_of_others])
@pytest.mark.parametrize("bound", [{"keep_seconds": 90_000.0}, {"keep_bytes": 1}])
def test_no_damaged_segment_stops_compaction_and_retention(
    tmp_path: Path, clock: Clock, damage: Callable[[Path], None], bound: dict[str, Any]
) -> None:
    journal_of(tmp_path, 7)
    damage(tmp_path / segment_name("r", 4))
    touch(tmp_path, START)
    clock.now += 86_400
    settle(maintenance_of(tmp_path, clock, compact=True))
    assert [first for first, _ in segments(tmp_path)] == [0, 4, 6, 12]
    clock.now += 86_400
    os.utime(tmp_path / segment_name("r", 12), (clock.now, clock.now))
    settle(maintenance_of(tmp_path, clock, compact=True, **bound))
    assert [first for first, _ in segments(tmp_path)] == [12]


def test_blobs_stay_as_long_as_a_damaged_segment_may_refer_to_them(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 3, lambda n: bytes([n]) * (BLOB_BYTES + 1))
    without_footer(tmp_path / segment_name("r", 2))
    touch(tmp_path, START)
    clock.now += BLOB_GRACE + 1
    settle(maintenance_of(tmp_path, clock, keep_seconds=2 * BLOB_GRACE))
    assert sum(path.is_file() for path in (tmp_path / "blobs").rglob("*")) == 6


def test_where_nothing_more_can_be_written_the_oldest_go_all_the_same(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 7)
    (tmp_path / f".{compacted_name('r', 0, 11)}.tmp").mkdir()
    clock.now += 86_400
    settle(maintenance_of(tmp_path, clock, compact=True, keep_seconds=80_000.0))
    assert [first for first, _ in segments(tmp_path)] == [12]


def test_rows_that_cannot_be_read_are_left_alone_from_then_on(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 5, lambda n: os.urandom(4000))
    broken = tmp_path / segment_name("r", 2)
    whole = broken.read_bytes()
    broken.write_bytes(whole[:100] + bytes(4000) + whole[4100:])
    os.utime(broken, (START, START))
    clock.now += 86_400
    maintenance = maintenance_of(tmp_path, clock, compact=True)
    for _ in range(3):
        settle(maintenance)
    assert maintenance.compacted == 0
    assert not list(tmp_path.glob(".*tmp"))


def test_a_hole_between_segments_is_not_closed(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 6)
    (tmp_path / segment_name("r", 4)).unlink()
    clock.now += 86_400
    settle(maintenance_of(tmp_path, clock, compact=True))
    names = [path.name for _, path in segments(tmp_path)]
    assert names == [compacted_name("r", 0, 3), compacted_name("r", 6, 9), segment_name("r", 10)]
    assert sequences(tmp_path) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]


def test_the_recorder_is_read_out_of_either_name() -> None:
    for name in ("r", "a-b", "lab-12"):
        assert segment_recorder(Path(segment_name(name, 3))) == name
        assert segment_recorder(Path(compacted_name(name, 3, 5))) == name


def test_old_segments_are_removed_by_age_but_for_the_newest(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 4)
    for first in (4, 6):
        os.utime(tmp_path / segment_name("r", first), (START + 100, START + 100))
    clock.now += 150
    maintenance = maintenance_of(tmp_path, clock, keep_seconds=120.0)
    settle(maintenance)
    assert sequences(tmp_path) == [4, 5, 6, 7]
    clock.now += 1000
    settle(maintenance)
    assert (sequences(tmp_path), maintenance.removed) == ([6, 7], 3)


def test_gaps_go_with_the_segments_beside_which_they_were_told(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 3)
    gaps = GapLog(tmp_path, "r")
    for at in (START - 1, START + 1):
        gaps.add(GapRow(at, "a", "scope", 7, "t", 1, int(at), 1, "evicted"))
    gaps.write()
    clock.now += 1000
    os.utime(tmp_path / segment_name("r", 4), (clock.now, clock.now))
    settle(maintenance_of(tmp_path, clock, keep_seconds=120.0, gaps=gaps))
    assert sequences(tmp_path) == [4, 5]
    assert [gap.at for gap in read_gaps(tmp_path)] == [START + 1]


def test_a_clock_far_ahead_leaves_as_many_days_as_are_kept(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 4)
    for number, days in enumerate((0, 1, 2, 4000)):
        os.utime(tmp_path / segment_name("r", 2 * number), (START, START + days * 86_400.0))
    clock.now += 4000 * 86_400.0
    settle(maintenance_of(tmp_path, clock, keep_seconds=2 * 86_400.0))
    assert sequences(tmp_path) == [4, 5, 6, 7]


def test_a_clock_that_was_ahead_for_a_while_holds_up_no_removal(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 4)
    ahead = START + 4000 * 86_400.0
    os.utime(tmp_path / segment_name("r", 2), (ahead, ahead))
    clock.now += 150
    settle(maintenance_of(tmp_path, clock, keep_seconds=120.0))
    assert sequences(tmp_path) == [6, 7]


def test_old_segments_are_removed_by_bytes(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 5)
    size = sum(path.stat().st_size for _, path in segments(tmp_path)[3:])
    settle(maintenance_of(tmp_path, clock, keep_bytes=size))
    assert sequences(tmp_path) == [6, 7, 8, 9]


@pytest.mark.parametrize("keep", [{"keep_seconds": 120.0}, {"keep_bytes": 1}])
def test_whatever_is_due_is_removed_by_one_look_at_the_journal(
    tmp_path: Path, clock: Clock, keep: dict[str, Any]
) -> None:
    journal_of(tmp_path, 5)
    clock.now += 150
    maintenance = maintenance_of(tmp_path, clock, **keep)
    assert maintenance.step()
    assert (sequences(tmp_path), maintenance.removed) == ([8, 9], 4)


def test_blobs_that_go_with_their_segments_make_room_for_others(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 4, lambda number: bytes([number // 3]) * (BLOB_BYTES + 1))
    maintenance = maintenance_of(tmp_path, clock, keep_bytes=BLOB_BYTES * 5 // 2)
    assert maintenance.step()
    assert (sequences(tmp_path), maintenance.removed) == ([4, 5, 6, 7], 2)


def test_a_removed_segment_does_not_come_back_by_those_it_stood_for(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 3)
    clock.now += 86_400
    settle(maintenance_of(tmp_path, clock, compact=True))
    settle(maintenance_of(tmp_path, clock, keep_bytes=1))
    assert [(first, covered) for first, _, covered in all_segments(tmp_path)] == [(4, False)]


def test_blobs_go_when_nothing_refers_to_them_any_more(tmp_path: Path, clock: Clock) -> None:
    def content(number: int) -> bytes:
        return bytes([number // 2]) * (BLOB_BYTES + 1)

    def blobs() -> int:
        return sum(path.is_file() for path in (tmp_path / "blobs").rglob("*"))

    journal_of(tmp_path, 3, content)
    assert blobs() == 3
    maintenance = maintenance_of(tmp_path, clock, keep_bytes=BLOB_BYTES * 2)
    clock.now += BLOB_GRACE - 1
    settle(maintenance)
    assert (sequences(tmp_path), blobs()) == ([4, 5], 3)
    clock.now += 2
    settle(maintenance)
    assert (blobs(), maintenance.removed_blobs) == (1, 2)


def test_a_blob_that_is_needed_again_is_young_again(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 1, lambda _: bytes(BLOB_BYTES + 1))
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(2, bytes(BLOB_BYTES + 1)))
    (blob,) = (path for path in (tmp_path / "blobs").rglob("*") if path.is_file())
    assert blob.stat().st_mtime != START


def test_a_journal_that_is_gone_is_no_reason_to_end(tmp_path: Path, clock: Clock) -> None:
    home = tmp_path / "journal"
    journal_of(home, 3)
    shutil.rmtree(home)
    assert not maintenance_of(home, clock, compact=True, keep_bytes=1).step()


def test_by_default_nothing_is_looked_after(tmp_path: Path) -> None:
    assert not Maintenance(tmp_path, "r")


def test_a_compacted_segment_has_the_schema_of_all(tmp_path: Path, clock: Clock) -> None:
    journal_of(tmp_path, 3)
    plain = pq.read_schema(segments(tmp_path)[0][1])
    clock.now += COMPACT_AGE + 1
    settle(maintenance_of(tmp_path, clock, compact=True))
    assert pq.read_schema(segments(tmp_path)[0][1]).equals(plain, check_metadata=True)
