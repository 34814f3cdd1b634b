"""`Work` against a model of what was sent; no Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings

from pzc.pipeline.alarm_rules import AlarmRules, Limit
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.tables.interval_set import IntervalSet
from pzc.pipeline.tables.work import Inline, Task, Work
from pzc.protocol.errors import JournalError

from tests.pipeline.engine_rig import SECRET, SEGMENTS, Field, Sent, record, stored, worked

FIELD = Field()


@given(SEGMENTS)
@settings(max_examples=60, deadline=None)
def test_every_notification_of_some_segments_is_filed_once_and_every_row_ends(
    segments: list[tuple[str, list[Sent]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal, stage = Path(folder) / "journal", Path(folder) / "stage"
        journal.mkdir()
        for recorder, rows in segments:
            record(journal, recorder, map(FIELD.row, rows))
        report = worked(journal, stage)
        every = [sent for _, rows in segments for sent in rows]
        good = {sent for sent in every if sent.kind != "broken"}
        assert stored(stage, "notifications", "value_double") == sorted((s.value for s in good), key=repr)
        broken = [sent for sent in every if sent.kind == "broken"]
        assert len(stored(stage, "quarantine", "error")) == len(broken) == report.filed("quarantine")
        assert report.rows == len(every) == len(good) + len(broken) + report.repeated
        seen = IntervalSet()
        for part in report.parts:
            if part.epoch == 7:
                for first, last in IntervalSet(part.runs):
                    seen.add(first, last)
        assert {n for first, last in seen for n in range(first, last + 1)} == {
            sent.number for sent in good if sent.kind == "signed" and sent.start == 0
        }


def test_a_report_tells_of_the_files_so_that_nobody_has_to_open_them(tmp_path: Path) -> None:
    record(tmp_path / "journal", "a", [FIELD.row(Sent("signed", 0, n)) for n in (1, 2)])
    report = worked(tmp_path / "journal", tmp_path / "stage")
    (file,) = report.files
    received = [round(FIELD.row(Sent("signed", 0, n)).received_at * 1e6) for n in (1, 2)]
    assert (file.table, file.rows, [file.first, file.last]) == ("notifications", 2, received)
    assert file.size == (tmp_path / "stage" / file.place).stat().st_size
    assert report.days == [received[0] // 86_400_000_000]


def test_what_is_handled_and_what_was_received_at_another_time_is_left_alone(tmp_path: Path) -> None:
    rows = [FIELD.row(Sent("signed", 0, n)) for n in range(1, 7)]
    path = record(tmp_path / "journal", "a", rows)
    work = Work(make_decoder(SECRET), tmp_path / "stage", "label")
    last = round(rows[4].received_at * 1e6)
    (report,) = Inline().run(work, [Task(0, 1, (str(path),), {"a": [0, 1]}, (0, last))])
    assert (report.rows, report.skipped) == (3, 2)
    assert stored(tmp_path / "stage", "notifications", "sequence") == [3, 4, 5]


def test_a_damaged_segment_is_told_and_a_vanished_one_is_not(tmp_path: Path) -> None:
    paths = [record(tmp_path / "journal", "a", [FIELD.row(Sent("signed", 0, n))]) for n in (1, 2, 3)]
    paths[0].unlink()
    body = bytearray(paths[1].read_bytes())
    body[4:300] = bytes(296)
    paths[1].write_bytes(bytes(body))
    work = Work(make_decoder(SECRET), tmp_path / "stage", "label")
    (report,) = Inline().run(work, [Task(0, 1, tuple(map(str, paths)), {})])
    assert [(each.file, each.rows, each.read) for each in report.damaged] == [(paths[1].name, 1, 0)]
    assert stored(tmp_path / "stage", "notifications", "sequence") == [3]


def test_alarms_are_filed_beside_what_they_are_about_without_copies(tmp_path: Path) -> None:
    for _ in range(2):
        record(tmp_path / "journal", "a", [FIELD.row(Sent("signed", 0, n)) for n in (1, 2)])
    report = worked(tmp_path / "journal", tmp_path / "stage", AlarmRules([Limit("any", "true")]))
    assert report.filed("alarms") == 2
    assert stored(tmp_path / "stage", "alarms", "sequence", "value") == [(1, 1.0), (2, 2.0)]


def test_what_cannot_be_written_leaves_nothing_half_done(tmp_path: Path) -> None:
    path = record(tmp_path / "journal", "a", [FIELD.row(Sent("signed", 0, 1))])

    class Refusing(AlarmRules):
        def judge(self, rows: pa.Table) -> pa.Table:
            raise JournalError("killed")

    work = Work(make_decoder(SECRET), tmp_path / "stage", "label", Refusing([Limit("any", "true")]))
    with pytest.raises(JournalError, match="killed"):
        work(Task(0, 1, (str(path),), {}))
    assert [each for each in (tmp_path / "stage").rglob("*") if each.is_file()] == []


def test_refused_rows_beyond_the_bound_are_counted_by_their_error(tmp_path: Path) -> None:
    rows = [FIELD.row(Sent("broken", 0, n)) for n in range(1, 6)]
    path = record(tmp_path / "journal", "a", [*rows, FIELD.row(Sent("signed", 0, 1))])
    work = Work(make_decoder(SECRET), tmp_path / "stage", "label", None, 2)
    (report,) = Inline().run(work, [Task(0, 6, (str(path),), {})])
    assert (report.rows, report.filed("notifications"), report.filed("quarantine")) == (6, 1, 2)
    assert len(stored(tmp_path / "stage", "quarantine", "error")) == 2
    (damage,) = report.damaged
    assert (damage.file, damage.rows, damage.read) == (path.name, 6, 3)
    assert damage.reason.endswith(": 3 SignatureError")
