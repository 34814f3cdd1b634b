"""Copies of what is stored: they are left out, and nothing else is touched; no Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pzc.pipeline.alarm_rules import AlarmRules, Limit
from pzc.pipeline.tables.again import Filed
from pzc.pipeline.tables.summary import Report
from pzc.pipeline.tables.work import Inline, TaskT

from tests.pipeline.following import Lab


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
