"""Tables follow a journal: once each, across batches, runs, kills and copies; no Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from pzc import Notification
from pzc.pipeline.alarm_rules import AlarmRules, Limit
from pzc.pipeline.storage import Storage
from pzc.pipeline.tables.commit_log import FOLDER, Commit
from pzc.pipeline.tables.committer import Committer, claimed
from pzc.pipeline.tables.work import Inline
from pzc.protocol.errors import ConfigError, JournalError
from pzc.protocol.frames import PZC00
from pzc.protocol.keyring import Key, Keyring
from pzc.testing.journals import Recording, write_journal

from tests.pipeline.conftest import damaged
from tests.pipeline.following import Dying, Killed, Lab

Rows = Callable[..., list[Notification]]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def rows(make_sender: Any) -> Rows:
    """Notifications 1, 2, … of one agent, the same ones whenever asked."""

    def make(count: int, name: str = "psu", **options: Any) -> list[Notification]:
        return make_sender(name, **options).rows("v", map(float, range(1, count + 1)), 1)

    return make


def test_segments_that_come_later_are_added_to_what_is_there(lab: Lab, rows: Rows) -> None:
    some = rows(9)
    lab.record(some[:4])
    assert [batch.notifications for batch in lab.run()] == [4]
    lab.record(some[4:])
    assert [batch.notifications for batch in lab.run()] == [5]
    assert lab.run() == []
    assert lab.sequences() == list(range(1, 10))
    assert lab.rows("statistics", "count", "missing", "mean") == [(9, 0, 5.0)]


def test_several_batches_of_one_run_are_one_table(lab: Lab, rows: Rows) -> None:
    some = rows(6)
    for start in (0, 2, 4):
        lab.record(some[start : start + 2])
    assert len(lab.run(max_files=1)) == 3
    assert lab.sequences() == [1, 2, 3, 4, 5, 6]


def test_a_copy_of_another_recorder_is_stored_once_in_one_batch_and_in_two(lab: Lab, rows: Rows) -> None:
    some = rows(6)
    lab.record(some[:4])
    lab.record(some[2:5], "second")
    (first,) = lab.run()
    lab.record(some, "third")
    (second,) = lab.run()
    assert lab.sequences() == [1, 2, 3, 4, 5, 6]
    assert (first.duplicates, second.duplicates, second.notifications) == (2, 5, 1)
    assert lab.rows("statistics", "count", "mean", "duplicates") == [(6, 3.5, 7)]


def test_copies_without_sequence_are_known_by_their_message_ids(lab: Lab, make_sender: Any) -> None:
    some = make_sender(dialect=PZC00).rows("v", [1.0, 2.0, 3.0])
    lab.record(some[:2])
    lab.record(some[1:], "second")
    lab.run()
    lab.record([*some, some[0]], "third")
    (second,) = lab.run()
    assert lab.rows("notifications", "value_double") == [1.0, 2.0, 3.0]
    assert second.duplicates == 4


def test_a_compacted_segment_is_passed_over_without_being_judged_again(lab: Lab, rows: Rows) -> None:
    some = rows(5)
    some[1] = damaged(some[1])
    lab.record(some[:3])
    lab.record(some[3:])
    lab.run()
    small = lab.segments()
    table = pa.concat_tables([pq.read_table(path) for path in small])
    for path in small:
        path.unlink()
    pq.write_table(table, lab.journal / "segment-recorder-00000000000000000000.parquet")
    assert lab.run() == []
    assert lab.sequences() == [1, 3, 4, 5]
    assert len(lab.rows("quarantine", "error")) == 1


def test_gaps_restarts_and_late_arrivals_are_told(lab: Lab, make_sender: Any, rows: Rows) -> None:
    some = rows(9)
    lab.record(some[:2] + some[6:8])
    lab.run()
    assert lab.rows("gaps", "first_missing", "last_missing", "count") == [(3, 6, 4)]
    lab.record(some[3:5])
    lab.record(make_sender("psu", epoch=8, start=1_700_000_001_000).rows("v", [1.0], 1))
    lab.run()
    assert lab.rows("gaps", "first_missing", "last_missing", "count") == [(3, 3, 1), (6, 6, 1)]
    assert lab.rows("restarts", "epoch_before", "epoch") == [(7, 8)]
    assert lab.rows("statistics", "count", "missing", "late", "epochs") == [(7, 2, 2, 2)]


def test_an_agent_that_was_started_again_is_known_by_its_name(lab: Lab, make_sender: Any) -> None:
    before, after = make_sender("psu", epoch=8), make_sender("psu", epoch=7, start=1_700_000_001_000)
    after.agent_id = "another"  # as each start of an agent has its own
    lab.record([*before.rows("v", [1.0], 1), *after.rows("v", [1.0], 1)])
    lab.run()
    assert lab.rows("restarts", "publisher", "name", "epoch_before", "epoch") == [("another", "psu", 8, 7)]


def test_a_full_disk_is_what_a_run_ends_with(
    lab: Lab, make_sender: Any, small_files: Callable[[int | None], None]
) -> None:
    lab.record(make_sender("psu").rows("v", [os.urandom(100_000).hex()], 1))
    small_files(50_000)
    with pytest.raises(JournalError, match=f"{lab.tables} cannot be written: .*File too large"):
        lab.run()
    small_files(None)
    assert [batch.notifications for batch in lab.run()] == [1]


def test_a_run_that_is_killed_at_any_step_loses_and_repeats_nothing(
    lab: Lab, rows: Rows, tmp_path: Path
) -> None:
    some = rows(6) + rows(3, "cam")
    lab.record(some[:2])
    lab.run()
    lab.record(some[2:])
    steps = 0
    while True:
        other = Lab(tmp_path / str(steps))
        shutil.copytree(lab.journal, other.journal)
        shutil.copytree(lab.tables, other.tables)
        for torn in (False, True):
            try:
                other.run(storage=Dying(steps, torn))
            except Killed:
                continue
            break
        else:
            other.run()
            assert sorted(other.rows("notifications", "name", "sequence")) == [
                *(("cam", n) for n in (1, 2, 3)), *(("psu", n) for n in range(1, 7))
            ]  # fmt: skip
            assert sorted(other.rows("statistics", "name", "count")) == [("cam", 3), ("psu", 6)]
            steps += 1
            continue
        break
    assert steps >= 3


def test_a_first_batch_that_is_killed_at_any_step_is_done_once(rows: Rows, tmp_path: Path) -> None:
    some = rows(5)
    for steps in range(12):
        lab = Lab(tmp_path / str(steps))
        lab.record(some[:4])
        try:
            lab.run(storage=Dying(steps))
        except Killed:
            assert sum(batch.notifications for batch in lab.run()) in (0, 4)
        lab.record(some[4:])
        lab.run()
        assert lab.sequences() == [1, 2, 3, 4, 5]
        assert lab.rows("statistics", "count", "duplicates") == [(5, 0)]


def test_a_damaged_file_is_named_when_what_is_stored_is_counted_anew(lab: Lab, rows: Rows) -> None:
    lab.record(rows(2))
    lab.run()
    shutil.rmtree(lab.tables / FOLDER)
    (path,) = (lab.tables / "notifications").rglob("*.parquet")
    path.write_bytes(b"no Parquet")
    with pytest.raises(JournalError, match=rf"{path.name} cannot be read: .*remove it"):
        lab.run()
    path.unlink()
    lab.run()
    assert lab.sequences() == [1, 2]


def test_a_lost_commit_log_is_counted_anew_from_what_is_stored(lab: Lab, rows: Rows) -> None:
    some = rows(6)
    some[1] = damaged(some[1])
    lab.record(some[:4])
    lab.run()
    shutil.rmtree(lab.tables / FOLDER)
    lab.record(some[4:5])
    lab.run()
    lab.record(some[5:])
    lab.run()
    assert lab.sequences() == [1, 3, 4, 5, 6]
    assert lab.rows("statistics", "count", "missing") == [(5, 1)]
    assert len(lab.rows("quarantine", "error")) == 1


def test_a_damaged_segment_is_named_and_stops_no_other(
    lab: Lab, rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    some = rows(6)
    for start in (0, 2, 4):
        lab.record(some[start : start + 2])
    half, torn, _ = lab.segments()
    half.write_bytes(half.read_bytes()[:-100])
    body = bytearray(torn.read_bytes())
    body[4:600] = bytes(596)
    torn.write_bytes(bytes(body))
    (made,) = lab.run()
    assert lab.sequences() == [5, 6]
    assert made.damaged == 2
    assert lab.rows("damaged", "file", "rows", "read") == [(half.name, None, 0), (torn.name, 2, 0)]
    assert half.name in caplog.text
    lab.record(rows(7)[6:])
    assert [batch.damaged for batch in lab.run()] == [0]


def test_a_damaged_segment_that_was_put_right_is_read(lab: Lab, rows: Rows) -> None:
    some = rows(4)
    lab.record(some[:2])
    lab.record(some[2:])
    (_, torn) = lab.segments()
    whole = torn.read_bytes()
    torn.write_bytes(whole[:-100])
    lab.run()
    torn.write_bytes(whole[:-50])
    assert [batch.damaged for batch in lab.run()] == [1]
    assert lab.rows("damaged", "file") == [torn.name]
    torn.write_bytes(whole)
    assert [batch.notifications for batch in lab.run()] == [2]
    assert lab.sequences() == [1, 2, 3, 4]
    assert lab.run() == []


def test_both_keys_of_a_rotation_verify(lab: Lab, make_sender: Any) -> None:
    lab.record(make_sender("psu", secret="a long secret of old").rows("v", [1.0], 1))
    lab.record(make_sender("psu", secret="a long secret of new", epoch=8).rows("v", [2.0], 1))
    new = Key("a long secret of new", name="new")
    lab.run(lab.settings(Keyring([Key("a long secret of old", name="old"), new], active=new)))
    assert lab.rows("notifications", "user", "value_double") == [("new", 2.0), ("old", 1.0)]


def test_an_alarm_is_told_with_its_batch_and_stored_once(lab: Lab, rows: Rows) -> None:
    settings = lab.settings(
        rules=AlarmRules((Limit("high", "value_double > 2"), Limit("low", "value_double < 2")), ["high"])
    )
    lab.record(rows(4))
    (made,) = lab.run(settings)
    assert [(alarm["rule"], alarm["value"]) for alarm in made.announce] == [("high", 3.0), ("high", 4.0)]
    lab.record(rows(4), "second")
    (again,) = lab.run(settings)
    assert (made.alarms, again.alarms, again.announce) == (3, 0, ())
    assert lab.rows("alarms", "rule", "value") == [("high", 3.0), ("high", 4.0), ("low", 1.0)]


def test_a_limit_that_cannot_be_judged_is_refused_before_anything_is_written(lab: Lab, rows: Rows) -> None:
    lab.record(rows(1))
    with pytest.raises(ConfigError, match="bad"):
        lab.run(lab.settings(rules=AlarmRules([Limit("bad", "no_such_column > 1")])))
    assert not (lab.tables / "notifications").exists()


def test_two_processes_do_not_work_on_one_folder(lab: Lab, rows: Rows) -> None:
    lab.record(rows(1))
    with claimed(lab.tables), pytest.raises(JournalError, match="another process"):
        lab.run()


def test_agents_and_days_have_folders_whatever_agents_are_called(lab: Lab, make_sender: Any) -> None:
    for number, name in enumerate(["a/b=c%", "ä [x]", ""]):
        sender = make_sender("psu", epoch=number, start=1_700_000_000_000 + number * 86_400_000)
        lab.record([replace(row, name=name) for row in sender.rows("v", [1.0], 1)])
    lab.run()
    found = lab.rows("notifications", "agent", "date")
    assert [agent for agent, _ in found] == sorted(["a/b=c%", "ä [x]", make_sender("psu").agent_id], key=repr)
    assert [str(day) for _, day in sorted(found, key=lambda one: one[1])] == [
        "2023-11-14", "2023-11-15", "2023-11-16"
    ]  # fmt: skip


def test_a_compacted_segment_beside_those_it_covers_repeats_nothing(lab: Lab, rows: Rows) -> None:
    some = rows(5)
    some[1] = damaged(some[1])
    lab.record(some[:3])
    lab.record(some[3:])
    table = pa.concat_tables([pq.read_table(path) for path in lab.segments()])
    pq.write_table(table, lab.journal / "segment-recorder-00000000000000000000.parquet")
    lab.run()
    assert lab.sequences() == [1, 3, 4, 5]
    assert len(lab.rows("quarantine", "error")) == 1


def test_a_journal_with_losses_copies_damage_and_restarts_is_stored_as_it_is_known_to_be(lab: Lab) -> None:
    recording = Recording(published=4000, lost=0.01, repeated=0.05, damaged=0.01)
    truth = write_journal(lab.journal, recording, rows_per_segment=1000)
    made = lab.run(max_files=2)
    assert sum(batch.rows for batch in made) == truth.rows
    assert sum(batch.notifications for batch in made) == len(lab.sequences()) == truth.notifications
    assert sum(batch.duplicates for batch in made) == truth.repeated
    assert len(lab.rows("quarantine", "error")) == truth.damaged
    assert sum(lab.rows("gaps", "count")) == made[-1].missing == truth.missing


def test_a_commit_that_changes_files_alone_leaves_the_state_as_it_is(lab: Lab, rows: Rows) -> None:
    lab.record(rows(3))
    lab.run()
    with claimed(lab.tables) as root:
        committer = Committer(root, Inline(), Storage())
        before = committer.state.encode()
        committer.commit(Commit(0, removed=[committer.files[0].place]))
        assert committer.state.encode() == before
        committer.close()
    assert lab.rows("notifications", "sequence") == []


def test_tables_that_no_pipeline_named_are_counted_as_they_are(lab: Lab, rows: Rows) -> None:
    some = rows(3)
    lab.record(some)
    lab.run()
    (file,) = (lab.tables / "notifications").rglob("*.parquet")
    file.rename(file.with_name("part-0.snappy.parquet"))
    shutil.rmtree(lab.tables / FOLDER)
    assert lab.run() == []
    assert lab.sequences() == [1, 2, 3]
    lab.run()
    assert lab.sequences() == [1, 2, 3]


class Several(Inline):
    """Three tasks, whatever there is to do."""

    def count(self, rows: int) -> int:
        return 3


def test_what_several_tasks_read_at_once_is_not_late(rows: Rows, tmp_path: Path) -> None:
    lab = Lab(tmp_path, Several())
    some = rows(8)
    for start in range(0, 8, 2):
        lab.record(some[start : start + 2])
    (made,) = lab.run()
    assert made.notifications == 8
    assert len(lab.rows("notifications", "agent")) == 8
    assert len(list((lab.tables / "notifications").rglob("*.parquet"))) == 3
    assert lab.rows("statistics", "late") == [0]
