"""Disks that are full, gone, or back again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.recording.segments import BLOB_BYTES
from pzc.pipeline.schema import segments
from pzc.pipeline.storage import Storage
from pzc.protocol.errors import JournalError
from pzc.testing import FakeClock

from tests.effort import many
from tests.pipeline.conftest import a_row, append, sequences
from tests.pipeline.scarcity import no_threads


def test_a_directory_that_comes_back_gets_everything(tmp_path: Path, clock: FakeClock) -> None:
    home, away = tmp_path / "journal", tmp_path / "away"
    with Journal(home, recorder="r", clock=clock) as journal:
        append(journal, a_row(0))
        home.rename(away)
        with pytest.raises(JournalError, match="cannot be written"):
            journal.commit()
        append(journal, a_row(1))
        away.rename(home)
        assert journal.commit() == 1
    assert sequences(home) == [0, 1]


def test_a_full_disk_leaves_no_part_of_a_segment(
    tmp_path: Path, small_files: Callable[[int | None], None]
) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(content=os.urandom(100_000)))
        small_files(50_000)
        with pytest.raises(JournalError, match="File too large"):
            journal.commit()
        small_files(None)
        assert os.listdir(tmp_path) == [".lock-r"]


def test_a_full_disk_loses_no_row(tmp_path: Path, small_files: Callable[[int | None], None]) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        for sequence in range(3):
            append(journal, a_row(sequence, os.urandom(100_000)))
        small_files(50_000)
        with pytest.raises(JournalError):
            journal.commit()
        small_files(None)
        journal.commit()
    assert sequences(tmp_path) == [0, 1, 2]


def test_a_blob_that_cannot_be_written_keeps_its_row_back(
    tmp_path: Path, small_files: Callable[[int | None], None]
) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(content=bytes(BLOB_BYTES + 1)))
        small_files(50_000)
        with pytest.raises(JournalError):
            journal.commit()
        small_files(None)
        assert (journal.durable_offset, segments(tmp_path)) == (-1, [])


class Failing(Storage):
    """A disk on which no name gets, or stays, until it works."""

    works = False

    def __init__(self, step: str) -> None:
        self._step = step

    def _do(self, step: str) -> None:
        if step == self._step and not self.works:
            raise OSError(f"no {step}")

    def sync(self, path: Path) -> None:
        self._do("sync")
        super().sync(path)

    def rename(self, source: Path, target: Path) -> None:
        self._do("rename")
        super().rename(source, target)


def test_a_segment_whose_folder_was_not_synced_is_not_durable(tmp_path: Path) -> None:
    disk = Failing("sync")
    with Journal(tmp_path, recorder="r", storage=disk) as journal:
        append(journal, a_row(0))
        with pytest.raises(JournalError, match="no sync"):
            journal.commit()
        assert journal.durable_offset == -1
        disk.works = True
        append(journal, a_row(1))
    assert sequences(tmp_path) == [0, 1]


def test_a_segment_appears_by_its_rename_only(tmp_path: Path) -> None:
    disk = Failing("rename")
    with Journal(tmp_path, recorder="r", storage=disk) as journal:
        append(journal, a_row())
        with pytest.raises(JournalError, match="no rename"):
            journal.commit()
        assert os.listdir(tmp_path) == [".lock-r"]
        disk.works = True


def test_a_want_of_threads_for_blobs_keeps_every_row(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        for sequence in range(2):
            append(journal, a_row(sequence, bytes([sequence]) * (BLOB_BYTES + 1)))
        with no_threads(), pytest.raises(JournalError, match="new thread"):
            journal.commit()
        assert journal.pending_rows == 2
    assert sequences(tmp_path) == [0, 1]


def test_a_failed_write_does_not_raise_in_append(tmp_path: Path) -> None:
    home = tmp_path / "journal"
    with Journal(home, recorder="r", max_bytes=1) as journal:
        home.rename(tmp_path / "away")
        assert append(journal, a_row(0)) == 0
        assert isinstance(journal.error, JournalError)
        (tmp_path / "away").rename(home)


def test_success_clears_the_error(tmp_path: Path) -> None:
    home = tmp_path / "journal"
    with Journal(home, recorder="r", max_bytes=1) as journal:
        home.rename(tmp_path / "away")
        append(journal, a_row(0))
        (tmp_path / "away").rename(home)
        journal.commit()
        assert journal.error is None


def test_a_failure_and_its_end_are_logged_once_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "journal"
    with Journal(home, recorder="r") as journal:
        append(journal, a_row(0))
        home.rename(tmp_path / "away")
        for _ in range(3):
            with pytest.raises(JournalError):
                journal.commit()
        (tmp_path / "away").rename(home)
        journal.commit()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_after_a_failure_the_next_attempt_waits(tmp_path: Path, clock: FakeClock) -> None:
    home = tmp_path / "journal"
    with Journal(home, recorder="r", max_bytes=1, retry=1.0, clock=clock) as journal:
        home.rename(tmp_path / "away")
        append(journal, a_row(0))
        (tmp_path / "away").rename(home)
        clock.now += 0.5
        assert journal.tick() == -1
        clock.now += 0.6
        assert journal.tick() == 0


def test_a_full_memory_refuses_rows_and_says_why(tmp_path: Path, clock: FakeClock) -> None:
    home = tmp_path / "journal"
    with Journal(home, recorder="r", max_bytes=1, max_pending=3000, clock=clock) as journal:
        home.rename(tmp_path / "away")
        append(journal, a_row(0, bytes(2000)))
        with pytest.raises(JournalError, match=r"unwritten bytes.*cannot be written"):
            append(journal, a_row(1, bytes(2000)))
        (tmp_path / "away").rename(home)
    assert sequences(home) == [0]


def test_a_full_memory_takes_rows_again_once_it_could_be_written(tmp_path: Path, clock: FakeClock) -> None:
    home = tmp_path / "journal"
    with Journal(home, recorder="r", max_bytes=1, max_pending=3000, clock=clock) as journal:
        home.rename(tmp_path / "away")
        append(journal, a_row(0, bytes(2000)))
        (tmp_path / "away").rename(home)
        clock.now += 2
        journal.tick()
        assert append(journal, a_row(1, bytes(2000))) == 1


def test_one_row_larger_than_the_memory_limit_is_taken(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r", max_pending=1000) as journal:
        assert append(journal, a_row(content=bytes(5000))) == 0


def test_closing_reports_rows_that_could_not_be_written(tmp_path: Path) -> None:
    home = tmp_path / "journal"
    journal = Journal(home, recorder="r")
    append(journal, a_row())
    home.rename(tmp_path / "away")
    with pytest.raises(JournalError, match="cannot be written"):
        journal.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"frames": (b"1", b"2", b"3", b"4")},
        {"frames": (b"1", b"2", "text", b"4", b"5")},
        {"topic": None},
        {"topic": "\ud800"},
        {"sequence": 1 << 63},
        {"epoch": "seven"},
        {"received_at": float("nan")},
        {"received_at": 1e300},
        {"sent_at": float("inf")},
    ],
    ids=str,
)
def test_a_row_that_cannot_be_stored_is_refused_and_spoils_no_other(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(0))
        with pytest.raises(JournalError, match="cannot be stored"):
            append(journal, replace(a_row(1), **fields))
        append(journal, a_row(2))
    assert sequences(tmp_path) == [0, 2]


STEPS = st.lists(
    st.sampled_from(["append", "commit", "tick", "reopen", "away", "back", "later"]), max_size=40
)


@settings(max_examples=many(40))
@given(STEPS)
def test_whatever_happens_each_row_is_written_once_and_in_order(steps: list[str]) -> None:
    """Rows are only lost with a process, never with a disk that fails for a while."""
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder:
        home, away = Path(folder, "journal"), Path(folder, "away")
        journal = Journal(home, recorder="r", max_bytes=1500, clock=clock)
        count = 0
        for step in steps:
            if step == "append":
                assert append(journal, a_row(count, bytes(300))) == count
                count += 1
            elif step == "tick":
                journal.tick()
            elif step == "later":
                clock.now += 3
            elif step == "away" and home.exists():
                home.rename(away)
            elif step == "back" and away.exists():
                away.rename(home)
            elif step == "commit" and home.exists():
                assert journal.commit() == count - 1
            elif step == "reopen" and home.exists():
                journal.close()
                journal = Journal(home, recorder="r", max_bytes=1500, clock=clock)
        if away.exists():
            away.rename(home)
        journal.close()
        assert sequences(home) == list(range(count))
