"""Copies of what is stored: they are left out, and nothing else is touched; no Spark."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pzc.pipeline.alarm_rules import AlarmRules, Limit
from pzc.pipeline.tables.again import Filed
from pzc.pipeline.tables.run import backfill
from pzc.pipeline.tables.summary import Report
from pzc.pipeline.tables.work import Inline, TaskT

from tests.pipeline.following import START, Lab


class Noting(Inline):
    """Notes how many filed rows it is given to write again, and which files of alarms to read."""

    again = 0
    told: tuple[str, ...] = ()

    def run(self, function: Callable[[TaskT], Report], tasks: Sequence[TaskT]) -> list[Report]:
        filed = [task for task in tasks if isinstance(task, Filed)]
        self.again += sum(task.rows for task in filed)
        self.told += tuple(place for task in filed for place in task.told)
        return super().run(function, tasks)


@pytest.fixture
def workers() -> Noting:
    return Noting()


@pytest.fixture
def lab(tmp_path: Path, workers: Noting) -> Lab:
    return Lab(tmp_path, workers)


def test_only_what_an_agent_with_copies_filed_is_written_again(
    lab: Lab, workers: Noting, make_sender: Any
) -> None:
    copied = make_sender("copied").rows("v", [1.0, 2.0, 3.0], 1)
    lab.record(copied[:2])
    lab.run()
    lab.record([*copied, *make_sender("other").rows("v", [1.0] * 50, 1)], "second")
    (made,) = lab.run()
    assert (made.notifications, made.duplicates, workers.again) == (51, 2, 3)
    assert lab.rows("notifications", "agent", "sequence")[:4] == [
        ("copied", 1), ("copied", 2), ("copied", 3), ("other", 1)
    ]  # fmt: skip
    assert lab.rows("statistics", "name", "count", "duplicates") == [("copied", 3, 2), ("other", 50, 0)]


def test_alarms_that_nobody_is_told_of_are_not_read_again(
    lab: Lab, workers: Noting, make_sender: Any
) -> None:
    settings = lab.settings(rules=AlarmRules([Limit("high", "value_double > 2")]))
    copied = make_sender("copied").rows("v", [3.0, 4.0, 5.0], 1)
    lab.record(copied[:2])
    lab.run(settings)
    lab.record([*make_sender("other").rows("v", [1.0, 6.0], 1), *copied], "second")
    (made,) = lab.run(settings)
    assert (made.notifications, made.duplicates, made.alarms, workers.told) == (3, 2, 2, ())
    assert lab.rows("alarms", "name", "value") == [
        ("copied", 3.0),
        ("copied", 4.0),
        ("copied", 5.0),
        ("other", 6.0),
    ]


def test_alarms_of_agents_without_copies_are_told_and_stored_once(lab: Lab, make_sender: Any) -> None:
    settings = lab.settings(rules=AlarmRules([Limit("high", "value_double > 2")], ["high"]))
    copied = make_sender("copied").rows("v", [3.0, 4.0, 5.0], 1)
    lab.record(copied[:2])
    lab.run(settings)
    lab.record([*make_sender("other").rows("v", [1.0, 6.0], 1), *copied], "second")
    (made,) = lab.run(settings)
    assert [(alarm["name"], alarm["value"]) for alarm in made.announce] == [("other", 6.0), ("copied", 5.0)]
    assert (made.alarms, made.unannounced) == (2, 0)
    assert lab.rows("alarms", "value") == [3.0, 4.0, 5.0, 6.0]


def test_copies_under_another_name_are_left_out(lab: Lab, make_sender: Any) -> None:
    some = make_sender("psu").rows("v", [1.0, 2.0, 3.0, 4.0], 1)
    lab.record(some[:3])
    lab.run()
    lab.record(
        [replace(row, name=name) for row, name in zip(some, ["x", "y", "", "y"], strict=True)], "second"
    )
    (made,) = lab.run()
    assert (made.notifications, made.duplicates) == (1, 3)
    assert lab.rows("notifications", "agent", "sequence") == [("psu", 1), ("psu", 2), ("psu", 3), ("y", 4)]
    assert lab.rows("statistics", "count", "mean") == [(4, 2.5)]


def test_a_journal_that_was_begun_anew_under_a_recorders_name_is_stored(lab: Lab, make_sender: Any) -> None:
    sender = make_sender("psu")
    lab.record(sender.rows("v", [1.0, 2.0, 3.0], 1))
    lab.run()
    shutil.rmtree(lab.journal)
    for number in (5, 6):  # offsets from 0 on again
        lab.record([sender.row("v", 5.0, number)])
    assert [batch.rows for batch in lab.run()] == [2]
    lab.record([sender.row("v", 7.0, 7)])
    assert [(batch.rows, batch.skipped) for batch in lab.run()] == [(1, 0)]
    assert lab.sequences() == [1, 2, 3, 5, 6, 7]
    assert lab.run() == []


def two_journals(lab: Lab, make_sender: Any) -> tuple[Path, Path]:
    """Of recorders of one name: offsets 0 to 1 and 2 to 5 of the first, 0 to 3 and 4 to 5 of the second."""
    made: list[Path] = []
    for name, counts in (("first", (2, 4)), ("second", (4, 2))):
        sender, number = make_sender(name), 1
        for count in counts:
            lab.record(sender.rows("v", [1.0] * count, number))
            number += count
        made.append(lab.journal.rename(lab.journal.with_name(name)))
    return made[0], made[1]


def test_two_journals_of_recorders_of_one_name_fill_the_same_tables_by_turns(
    lab: Lab, make_sender: Any
) -> None:
    journals = two_journals(lab, make_sender)
    strange = lab.settings("a key of another lab")
    made: list[int] = []
    for lab.journal in journals * 3:
        made += [batch.rows for batch in lab.run(strange)]
    assert made == [6, 6]
    assert len(lab.rows("quarantine", "publisher")) == 12


def test_two_journals_of_recorders_of_one_name_that_were_put_into_one_folder_are_stored(
    lab: Lab, make_sender: Any
) -> None:
    lab.journal, other = two_journals(lab, make_sender)
    for path in lab.segments()[1:]:
        shutil.copy(path, other)
    lab.journal = other
    lab.run(every=0.01)
    assert lab.rows("statistics", "name", "count") == [("first", 4), ("second", 6)]
    assert lab.run(every=0.01) == []


def test_days_that_are_made_anew_of_another_journal_leave_out_no_row_of_the_first(
    lab: Lab, make_sender: Any
) -> None:
    first, _ = two_journals(lab, make_sender)
    sender = make_sender("third")
    lab.record(sender.rows("v", [1.0, 2.0], 1))
    lab.run()
    day = datetime.datetime.fromtimestamp(START / 1000, datetime.UTC).date()
    backfill(first, lab.tables, lab.settings(), lab.workers, day, day)
    lab.record(sender.rows("v", [3.0, 4.0, 5.0], 3))
    assert [batch.rows for batch in lab.run()] == [3]
    lab.journal = first
    assert lab.run() == []


def test_rows_of_a_journal_that_was_put_back_from_an_older_copy_are_stored(
    lab: Lab, make_sender: Any
) -> None:
    sender = make_sender("psu")
    lab.record(sender.rows("v", [1.0, 2.0], 1))
    copy = shutil.copytree(lab.journal, lab.journal.with_name("copy"))
    lab.record(sender.rows("v", [3.0, 4.0], 3))
    lab.run()
    shutil.rmtree(lab.journal)
    copy.rename(lab.journal)
    lab.record(sender.rows("v", [5.0, 6.0, 7.0], 5))
    assert [(batch.rows, batch.skipped) for batch in lab.run()] == [(3, 0)]
    assert lab.sequences() == [1, 2, 3, 4, 5, 6, 7]
    assert lab.run() == []


def test_an_older_copy_of_a_journal_lets_nothing_be_read_again(lab: Lab, make_sender: Any) -> None:
    sender = make_sender("psu")
    lab.record(sender.rows("v", [1.0, 2.0], 1))
    copy = shutil.copytree(lab.journal, lab.journal.with_name("copy"))
    lab.record(sender.rows("v", [3.0, 4.0], 3))
    lab.run()
    journal, lab.journal = lab.journal, copy
    day = datetime.datetime.fromtimestamp(START / 1000, datetime.UTC).date()
    for path in copy.glob("segment-*"):
        path.write_bytes(path.read_bytes())
    assert lab.run() == []
    backfill(copy, lab.tables, lab.settings(), lab.workers, day, day)
    lab.journal = journal
    assert lab.run() == []
