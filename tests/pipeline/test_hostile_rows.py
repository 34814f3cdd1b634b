"""Every row of a hostile journal ends in a table with a reason, in bounded time, and the run goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.tables.state import State
from pzc.pipeline.tables.summary import Report
from pzc.pipeline.tables.unread import Unread
from pzc.pipeline.tables.work import Inline, Task, Work

from tests.contract.rigs import hostile
from tests.pipeline.engine_rig import stored

NAMES = list(hostile.KINDS)
SECONDS = 40.0
"""Of computing, for all rows; on an idle machine they take about 8."""


class Ran(NamedTuple):
    """What one run over all of it did.

    Attributes:
        report: of its one task.
        quarantine: error and reason by offset.
        notifications: offsets of stored rows.
        damaged: names of segments.
        unsound: those that should be among them for their rows.
        strays: those that should be for their bytes.
        seconds: of computing.
    """

    report: Report
    quarantine: dict[int, tuple[str, str]]
    notifications: list[int]
    damaged: list[str]
    unsound: list[str]
    strays: list[str]
    seconds: float


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("hostile")
    journal, stage = folder / "journal", folder / "stage"
    hostile.write_rows(journal, NAMES)
    unsound = hostile.write_unsound(journal, 1000)
    strays = hostile.write_strays(journal, 2000)
    began = time.process_time()
    found = Unread(journal, settle=0.0).look(State(), 1000, 2e9)
    work = Work(make_decoder(None, journal=journal), stage, "label")
    (report,) = Inline().run(work, [Task(0, 1, tuple(each.path for each in found.segments), {})])
    took = time.process_time() - began
    quarantine = {
        offset: (error, reason)
        for offset, error, reason in stored(stage, "quarantine", "offset", "error", "reason")
    }
    damaged = [each.file for each in (*found.damaged, *report.damaged)]
    return Ran(report, quarantine, stored(stage, "notifications", "offset"), damaged, unsound, strays, took)


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_row_ends_in_a_table_with_its_reason(ran: Ran, name: str) -> None:
    kind, offset = hostile.KINDS[name], NAMES.index(name)
    if kind.error is None:
        assert offset in ran.notifications
        assert offset not in ran.quarantine
    else:
        error, reason = ran.quarantine[offset]
        assert error == kind.error
        assert kind.reason in reason


@pytest.mark.parametrize("number", range(len(hostile.NONE) + len(hostile.TEXTS)))
def test_a_row_that_no_recorder_writes_is_told_by_its_segment(ran: Ran, number: int) -> None:
    name = ran.unsound[number]
    (damage,) = [each for each in ran.report.damaged if each.file == name]
    assert "none that a recorder writes" in damage.reason
    assert damage.rows == damage.read + 1


def test_the_good_rows_of_such_a_segment_are_stored(ran: Ran) -> None:
    assert [offset for offset in ran.notifications if offset >= 1000] == [
        1000 + 2 * number for number in range(len(hostile.NONE))
    ]


def test_what_is_no_segment_is_damaged_or_passed_over(ran: Ran) -> None:
    assert sorted(ran.damaged) == sorted(ran.unsound + ran.strays)


def test_every_row_is_counted_and_the_run_takes_bounded_time(ran: Ran) -> None:
    report = ran.report
    assert report.rows == report.filed("notifications") + report.filed("quarantine") + report.repeated
    assert report.filed("quarantine") == len(ran.quarantine)
    assert ran.seconds < SECONDS


def test_folders_have_names_that_every_file_system_takes(ran: Ran) -> None:
    names = [part for each in ran.report.files for part in Path(each.place).parts]
    assert max(len(name.encode()) for name in names) <= 255
    assert not {".", ".."} & set(names)


def test_reasons_are_short(ran: Ran) -> None:
    longest: Any = max(len(reason) for _, reason in ran.quarantine.values())
    assert longest < 1000
