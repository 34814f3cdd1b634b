"""The commit log: what was appended is there, whatever is cut off at its end, and what is wrong is refused."""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pzc
from pzc.pipeline.storage import Storage
from pzc.pipeline.tables.commit_log import FOLDER, ROLL_BYTES, ROLL_RECORDS, Commit, CommitLog, listed
from pzc.pipeline.tables.state import State
from pzc.pipeline.tables.summary import File
from pzc.protocol.errors import JournalError

STORAGE = Storage()


def file(number: int) -> File:
    return File(f"notifications/date=2026-01-01/agent=psu/{number}.parquet", 1, 2, 3, 4)


def begun(root: Path, *numbers: int) -> CommitLog:
    """A log with a commit for each number, which adds a file of it."""
    log = CommitLog.create(root, State().encode(), [], STORAGE)
    for number in numbers:
        log.append(Commit(log.number + 1, added=[file(number)]))
    return log


def log_of(root: Path) -> Path:
    return sorted((root / FOLDER).glob("*.log"))[-1]


def places(root: Path) -> list[str]:
    found = listed(root)
    assert found is not None
    return found.places


def reopened(root: Path) -> tuple[CommitLog, list[Commit]]:
    found = CommitLog.open(root, STORAGE)
    assert found is not None
    return found[0], found[2]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 1000), st.booleans())
def test_a_log_whose_end_is_cut_off_has_all_whole_records_and_goes_on(
    numbers: list[int], cut: int, zeros: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        log = begun(root)
        ends = [log_of(root).stat().st_size]
        for number in numbers:
            log.append(Commit(log.number + 1, added=[file(number)]))
            ends.append(log_of(root).stat().st_size)
        log.close()
        size = max(ends[0], ends[-1] - cut)
        content = log_of(root).read_bytes()
        log_of(root).write_bytes(content[:size] + bytes(len(content) - size if zeros else 0))
        whole = sum(end <= size for end in ends) - 1
        expected = list(dict.fromkeys(file(number).place for number in numbers[:whole]))
        assert places(root) == expected
        again, commits = reopened(root)
        assert len(commits) == whole
        again.append(Commit(again.number + 1, added=[file(99)]))
        again.close()
        assert places(root) == [*expected, file(99).place]


def test_files_that_are_taken_out_are_not_listed(tmp_path: Path) -> None:
    log = begun(tmp_path, 1, 2)
    log.append(Commit(log.number + 1, removed=[file(1).place]))
    log.close()
    assert places(tmp_path) == [file(2).place]
    again, _ = reopened(tmp_path)
    again.close()
    assert list(again.files) == [file(2).place]


def test_a_record_in_the_middle_that_is_damaged_is_refused_with_what_to_do(tmp_path: Path) -> None:
    begun(tmp_path, 1, 2, 3).close()
    path = log_of(tmp_path)
    content = bytearray(path.read_bytes())
    at = content.index(b"/1.parquet")
    for place in (at, at - 60):  # in its text, and in what stands before it
        path.write_bytes(bytes(content[:place]) + b"\xff" + bytes(content[place + 1 :]))
        with pytest.raises(JournalError, match="damaged; remove it, and the next run counts"):
            listed(tmp_path)
        with pytest.raises(JournalError, match="damaged"):
            CommitLog.open(tmp_path, STORAGE)


def test_a_log_rolls_and_the_one_before_stays_for_whoever_reads_it(tmp_path: Path) -> None:
    log = begun(tmp_path, *range(ROLL_RECORDS - 1))
    assert log.is_long
    log.roll(State().encode())
    assert not log.is_long
    assert len(places(tmp_path)) == ROLL_RECORDS - 1
    log.append(Commit(log.number + 1, added=[file(-1)]))
    log.roll(State().encode())
    log.close()
    names = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert names == [f"{ROLL_RECORDS:010d}.log", f"{ROLL_RECORDS + 2:010d}.log"]
    assert len(places(tmp_path)) == ROLL_RECORDS


class Full(Storage):
    """A disk that has room for half of a record."""

    def append(self, file: object, content: bytes) -> None:
        super().append(file, content[: len(content) // 2])  # pyright: ignore[reportArgumentType]
        raise OSError(28, "No space left on device")


def test_a_log_whose_state_is_large_is_not_long_for_that(tmp_path: Path) -> None:
    state = msgspec.msgpack.encode({"x": bytes(ROLL_BYTES)})
    log = CommitLog.create(tmp_path, state, [], STORAGE)
    log.append(Commit(1, added=[file(1)]))
    assert not log.is_long
    log.close()
    again, _ = reopened(tmp_path)
    assert not again.is_long
    again.append(Commit(2, removed=["x" * ROLL_BYTES] * 2))
    assert again.is_long
    again.close()


def test_a_record_that_the_disk_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    begun(tmp_path, 1).close()
    before = log_of(tmp_path).read_bytes()
    found = CommitLog.open(tmp_path, Full())
    assert found is not None
    with pytest.raises(OSError, match="No space"):
        found[0].append(Commit(2, added=[file(2)]))
    found[0].close()
    assert log_of(tmp_path).read_bytes() == before


def test_a_record_that_was_refused_does_not_come_once_there_is_room_again(
    tmp_path: Path, small_files: Callable[[int | None], None]
) -> None:
    log = begun(tmp_path, 1)
    before = log_of(tmp_path).read_bytes()
    small_files(len(before) + 10)
    with pytest.raises(OSError, match="too large"):
        log.append(Commit(2, added=[file(2)]))
    small_files(None)
    log.close()
    assert log_of(tmp_path).read_bytes() == before


def test_a_log_of_a_newer_form_is_refused(tmp_path: Path) -> None:
    begun(tmp_path).close()
    record = msgspec.msgpack.encode({"form": 9, "number": 0})
    log_of(tmp_path).write_bytes(struct.pack("<II", len(record), zlib.crc32(record)) + record)
    with pytest.raises(JournalError, match="has form 9"):
        CommitLog.open(tmp_path, STORAGE)
    (tmp_path / "notifications").mkdir()
    with pytest.raises(JournalError, match="has form 9"):
        pzc.tables(tmp_path)


def test_without_a_log_nothing_is_listed(tmp_path: Path) -> None:
    assert listed(tmp_path) is None
    assert CommitLog.open(tmp_path, STORAGE) is None
    assert msgspec.msgpack.decode(State().encode())["series"] == {}
