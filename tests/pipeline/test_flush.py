"""What a recorder has in memory is written when somebody reads the journal."""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pzc import Agent, Protocol
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.recording.flush import FlushRequests, flush, lock_of
from pzc.pipeline.recording.inspecting import inspect
from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.recording.recorder import Recorder
from pzc.pipeline.recording.replay import Replay
from pzc.pipeline.storage import lock_file
from pzc.pipeline.tables.batches import Settings
from pzc.pipeline.tables.run import Pace, backfill, run
from pzc.pipeline.tables.work import Inline
from pzc.protocol.errors import JournalError

from tests.pipeline.conftest import a_row, append
from tests.pipeline.publishers import await_

KEY = "a key of the lab"
COUNT = 6
SOON = 0.3
"""Seconds; a recorder that answers within them is none of these."""


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    """It has taken some rows, and writes no segment for an hour."""
    protocol = Protocol(KEY)
    with (
        Agent(name="scope", protocol=protocol) as scope,
        Recorder(tmp_path / "journal", [scope.rep_endpoint], protocol=protocol, max_age=3600.0) as recorder,
    ):
        for value in range(COUNT):
            scope.publish("level", value)
        await_(lambda: recorder.recorded == COUNT, "all are taken")
        yield recorder


def test_a_reader_that_finds_a_recorder_dead_keeps_the_next_one_from_nothing(tmp_path: Path) -> None:
    held = lock_file(lock_of(tmp_path, "r"), "it lives")
    reader = threading.Timer(0.1, held.close)
    reader.start()
    with Journal(tmp_path, recorder="r") as journal:
        assert append(journal, a_row(0)) == 0
    reader.join()


def rows_of_a_run(journal: Path) -> int:
    found: list[int] = []
    settings = Settings(make_decoder(KEY, journal=journal))
    tables, once = journal.parent / "tables", Pace(once=True)
    run(journal, tables, settings, Inline(), lambda made: found.append(made.rows), once)
    return sum(found)


def rows_of_a_backfill(journal: Path) -> int:
    today = datetime.datetime.now(datetime.UTC).date()
    before, settings = today - datetime.timedelta(1), Settings(make_decoder(KEY, journal=journal))
    return backfill(journal, journal.parent / "tables", settings, Inline(), before, today)[0].rows


def rows_of_a_look(journal: Path) -> int:
    return inspect(journal).rows


def rows_of_a_replay(journal: Path) -> int:
    with Replay(journal, speed=None, protocol=Protocol(KEY)) as replay:
        return replay.run(threading.Event()).published


READERS = rows_of_a_run, rows_of_a_backfill, rows_of_a_look, rows_of_a_replay


@pytest.mark.parametrize("read", READERS)
def test_whoever_reads_a_journal_gets_what_its_recorder_has_taken(
    recorder: Recorder, read: Callable[[Path], int]
) -> None:
    assert read(recorder.journal.directory) == COUNT


def test_a_recorder_that_ended_leaves_nothing_to_ask(recorder: Recorder) -> None:
    recorder.close()
    assert not list(recorder.journal.directory.glob(".flush-*"))


def test_a_killed_recorder_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    FlushRequests(tmp_path, "r").open()  # which nobody closed
    flush(tmp_path)
    assert not caplog.records
    assert not list(tmp_path.glob(".flush-*"))


def test_a_recorder_that_is_killed_meanwhile_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requests = FlushRequests(tmp_path, "r")
    requests.open()
    with Journal(tmp_path, recorder="r") as journal:
        reader = threading.Thread(target=flush, args=(tmp_path,))
        reader.start()
        await_(lambda: list(tmp_path.glob(".flush-r/*")), "it asks")
        journal.close()
        reader.join(20.0)
    assert not reader.is_alive()
    assert not caplog.records


def test_what_a_recorder_cannot_write_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requests, end = FlushRequests(tmp_path, "r"), threading.Event()
    requests.open()

    def refuse() -> None:
        end.set()
        raise JournalError("the disk is full")

    def answer() -> None:
        while not end.is_set():
            requests.answer(refuse)

    recorder = threading.Thread(target=answer)
    with Journal(tmp_path, recorder="r"), caplog.at_level(logging.WARNING):
        recorder.start()
        flush(tmp_path, timeout=SOON)
        recorder.join()
        assert not list(tmp_path.glob(".flush-r/*"))
    assert [each.getMessage() for each in caplog.records] == [
        f"what r has in memory is left out: it did not write it within {SOON:g} s"
    ]


def test_whoever_may_not_ask_goes_on_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / ".flush-r").touch()  # in which nobody can make a file
    with Journal(tmp_path, recorder="r"), caplog.at_level(logging.WARNING):
        flush(tmp_path)
    (said,) = caplog.records
    assert said.getMessage().startswith("what r has in memory is left out: it could not be asked: ")


def test_a_journal_that_no_recorder_writes_is_read_as_it_is(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        append(journal, a_row(0))
        flush(tmp_path)
        assert journal.pending_rows == 1


def test_a_recorder_that_began_on_a_full_disk_is_asked_once_there_is_room(tmp_path: Path) -> None:
    requests, refused = FlushRequests(tmp_path, "r"), tmp_path / ".flush-r"
    refused.touch()  # so that no folder of the name can be made
    requests.open()
    refused.unlink()
    requests.answer(lambda: None)
    assert refused.is_dir()


def test_one_answer_is_for_all_who_ask(tmp_path: Path) -> None:
    requests, written = FlushRequests(tmp_path, "r"), list[int]()
    requests.open()
    for token in "ab":
        (tmp_path / ".flush-r" / token).touch()
    for _ in range(2):
        requests.answer(lambda: written.append(1))
    assert written == [1]
