from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq
import pytest

from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.recording.segments import BLOB_BYTES
from pzc.pipeline.schema import FORM_KEY, FRAMES, JOURNAL, JOURNAL_FORM, blob_path, segments
from pzc.pipeline.storage import Storage
from pzc.protocol.errors import ConfigError, JournalError
from pzc.testing import FakeClock

from tests.pipeline.conftest import a_row, append, visible, written

# --- rows and segments ------------------------------------------------------------------------------


def test_a_row_comes_back_as_it_was_given(tmp_path: Path) -> None:
    row = a_row(5, name="psu", epoch=7, sent_at=1_700_000_000.125, key_id="abcd")
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, row)
    (found,) = written(tmp_path)
    times = found.pop("received_at"), found.pop("sent_at")
    assert [time.timestamp() for time in times] == [row.received_at, row.sent_at]
    assert tuple(found.pop(name) for name in FRAMES) == row.frames
    assert found == {
        "recorder": "r",
        "offset": 0,
        "publisher": "a",
        "name": "psu",
        "epoch": 7,
        "topic": "t",
        "sequence": 5,
        "key_id": "abcd",
        "content_ref": None,
    }


def test_a_segment_has_the_journal_schema(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row())
    schema = pq.read_schema(segments(tmp_path)[0][1])
    assert schema.equals(JOURNAL)
    assert (schema.metadata or {})[FORM_KEY] == str(JOURNAL_FORM).encode()


def test_what_the_message_does_not_tell_is_null(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row())
    assert written(tmp_path)[0]["key_id"] is None


def test_a_frame_that_changes_after_append_is_recorded_as_it_was(tmp_path: Path) -> None:
    buffer = bytearray(b"before")
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(content=memoryview(buffer)))
        buffer[:] = b"after."
    assert written(tmp_path)[0]["content"] == b"before"


def test_nothing_is_durable_before_a_segment_is_written(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        assert append(journal, a_row()) == 0
        assert (journal.durable_offset, journal.pending_rows, visible(tmp_path)) == (-1, 1, [])


def test_a_segment_is_named_after_recorder_and_first_offset(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        for sequence in range(3):
            append(journal, a_row(sequence))
            journal.commit()
    assert visible(tmp_path) == [f"segment-r-{first:016d}.parquet" for first in range(3)]


def test_a_segment_is_written_at_the_size_limit(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r", max_bytes=3000) as journal:
        for sequence in range(3):
            append(journal, a_row(sequence, bytes(1000)))
        assert (journal.durable_offset, journal.pending_rows) == (2, 0)


def test_a_segment_is_written_at_the_age_limit(tmp_path: Path, clock: FakeClock) -> None:
    with Journal(tmp_path, recorder="r", clock=clock) as journal:
        append(journal, a_row())
        clock.now += 4.9
        assert journal.tick() == -1
        clock.now += 0.2
        assert journal.tick() == 0


def test_the_journal_tells_when_it_wants_to_be_called(tmp_path: Path, clock: FakeClock) -> None:
    with Journal(tmp_path, recorder="r", clock=clock) as journal:
        assert journal.due_in() is None
        append(journal, a_row())
        clock.now += 2
        assert journal.due_in() == pytest.approx(3.0)


def test_the_segment_is_visible_when_its_rows_are_reported_durable(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with Journal(
        tmp_path, recorder="r", on_durable=lambda last: seen.append((last, len(written(tmp_path))))
    ) as journal:
        for sequence in range(4):
            append(journal, a_row(sequence))
            if sequence % 2:
                journal.commit()
    assert seen == [(1, 2), (3, 4)]


def test_committing_nothing_writes_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        assert journal.commit() == -1
    assert visible(tmp_path) == []


def test_rows_from_several_threads_all_arrive(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r", max_bytes=4000) as journal:
        work = [
            threading.Thread(target=lambda: [append(journal, a_row(i)) for i in range(50)]) for _ in range(4)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert [row["offset"] for row in written(tmp_path)] == list(range(200))


# --- opening ----------------------------------------------------------------------------------------


def test_offsets_continue_after_the_last_segment(tmp_path: Path) -> None:
    for expected in (0, 1, 2):
        with Journal(tmp_path, recorder="r") as journal:
            assert append(journal, a_row()) == expected


def test_recorders_share_a_directory_and_count_for_themselves(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="a") as one, Journal(tmp_path, recorder="a-b") as two:
        assert (append(one, a_row()), append(two, a_row())) == (0, 0)


def test_opening_removes_own_unfinished_files_and_no_others(tmp_path: Path) -> None:
    own = {".segment-r-0000000000000003.parquet.tmp", f".blob-r-{'ab' * 32}.tmp"}
    foreign = {".segment-r-x-0000000000000003.parquet.tmp", f".blob-x-{'ab' * 32}.tmp", ".notes.tmp"}
    for name in own | foreign:
        (tmp_path / name).touch()
    with Journal(tmp_path, recorder="r"):
        assert own.isdisjoint(os.listdir(tmp_path))
    assert foreign <= set(os.listdir(tmp_path))


def test_a_name_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r"), pytest.raises(JournalError, match="records under this name"):
        Journal(tmp_path, recorder="r")


@pytest.mark.needs("fork")
def test_a_closed_journal_gives_its_name_back_though_a_forked_child_lives(tmp_path: Path) -> None:
    def reopen() -> None:
        with Journal(tmp_path, recorder="r"):
            pass

    with Journal(tmp_path, recorder="r"):
        hears, tells = os.pipe()
        child = os.fork()
        if not child:
            os.close(tells)
            os.read(hears, 1)
            os._exit(0)
    try:
        reopen()
    finally:
        os.close(tells)
        os.waitpid(child, 0)
        os.close(hears)


def test_a_closed_journal_gives_its_name_back(tmp_path: Path) -> None:
    Journal(tmp_path, recorder="r").close()
    Journal(tmp_path, recorder="r").close()


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "ä", "a\n"])
def test_a_recorder_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="recorder name"):
        Journal(tmp_path, recorder=name)


def test_a_directory_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="file"):
        Journal(tmp_path / "file", recorder="r")


def test_a_last_segment_that_cannot_be_read_is_an_error_at_opening(tmp_path: Path) -> None:
    (tmp_path / "segment-r-0000000000000000.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(JournalError, match=r"cannot be read: .*move the folder away"):
        Journal(tmp_path, recorder="r")


def test_a_failed_opening_keeps_no_lock(tmp_path: Path) -> None:
    broken = tmp_path / "segment-r-0000000000000000.parquet"
    broken.write_bytes(b"PAR1 no more")
    with pytest.raises(JournalError):
        Journal(tmp_path, recorder="r")
    broken.unlink()
    Journal(tmp_path, recorder="r").close()


def test_a_closed_journal_takes_no_rows(tmp_path: Path) -> None:
    journal = Journal(tmp_path, recorder="r")
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        append(journal, a_row())


# --- blobs ------------------------------------------------------------------------------------------


def test_a_content_above_the_limit_goes_to_a_blob(tmp_path: Path) -> None:
    content = os.urandom(BLOB_BYTES + 1)
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(content=content))
    (row,) = written(tmp_path)
    assert (row["content"], row["content_ref"]) == (b"", hashlib.sha256(content).hexdigest())
    assert blob_path(tmp_path, hashlib.sha256(content).hexdigest()).read_bytes() == content


def test_a_content_at_the_limit_stays_in_its_row(tmp_path: Path) -> None:
    content = bytes(BLOB_BYTES)
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(content=content))
    assert (written(tmp_path)[0]["content"], written(tmp_path)[0]["content_ref"]) == (content, None)


def test_equal_contents_share_one_blob(tmp_path: Path) -> None:
    content = bytes(BLOB_BYTES + 1)
    for recorder in ("r", "s"):
        with Journal(tmp_path, recorder=recorder) as journal:
            append(journal, a_row(0, content))
            append(journal, a_row(1, content))
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 1


def test_a_blob_that_exists_is_not_written_again(tmp_path: Path) -> None:
    content = bytes(BLOB_BYTES + 1)
    path = blob_path(tmp_path, hashlib.sha256(content).hexdigest())
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(0, content))
        journal.commit()
        first = path.stat().st_ino
        append(journal, a_row(1, content))
        journal.commit()
    assert path.stat().st_ino == first


class Noting(Storage):
    """Notes what was synchronised."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def settle(self, file: BinaryIO) -> None:
        super().settle(file)
        self.done.append(file.name)

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.done.append(str(path))


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_a_blob_is_on_disk_with_its_folders_before_its_row_is(tmp_path: Path, known: bool) -> None:
    content, disk = bytes(BLOB_BYTES + 1), Noting()
    path = blob_path(tmp_path, hashlib.sha256(content).hexdigest())
    if known:
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    with Journal(tmp_path, recorder="r", storage=disk) as journal:
        append(journal, a_row(0, content))
        journal.commit()
    done = [str(name) for name in disk.done]
    segment = next(i for i, name in enumerate(done) if name.endswith(".parquet.tmp"))
    assert {str(path.parent), str(path.parent.parent)} <= set(done[:segment])
    assert done[-1] == str(tmp_path)
