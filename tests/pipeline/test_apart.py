"""A process that dies of a row: the row ends in quarantine, and everything else is stored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pzc.pipeline.decoding.decode import Decoder
from pzc.pipeline.storage import Storage
from pzc.pipeline.tables.apart import alone, apart
from pzc.pipeline.tables.batches import Settings
from pzc.pipeline.tables.committer import Committer, claimed
from pzc.pipeline.tables.summary import Report
from pzc.pipeline.tables.work import Inline, Task, Work, WorkerDied
from pzc.protocol.codec import Message
from pzc.protocol.errors import JournalError
from pzc.protocol.keyring import Keyring

from tests.pipeline.conftest import Sender
from tests.pipeline.following import Lab

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).resolve().parents[2]
DEADLY, WRONG = 13.0, 15.0


class Deadly(Decoder):
    """Ends the process at one content and refuses another."""

    def open(self, frames: Sequence[bytes], content_ref: str | None = None) -> tuple[Message, Any]:
        envelope, content = super().open(frames, content_ref)
        if content == DEADLY:
            os._exit(9)
        if content == WRONG:
            raise ValueError("wrong")
        return envelope, content


class Mortal(Inline):
    """Workers that die at once."""

    def run(self, function: Any, tasks: Sequence[Any]) -> list[Any]:
        if isinstance(tasks[0], Task):
            raise WorkerDied("a worker has died")
        return super().run(function, tasks)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Two segments of two rows; a row of the second one is deadly, and one refused."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    lab, sender = Lab(tmp_path, Mortal()), Sender("psu")
    lab.record(sender.rows("v", [1.0, 2.0], 1))
    lab.record([sender.row("w", DEADLY, 3), sender.row("x", WRONG, 4)])
    return lab


def settings(lab: Lab) -> Settings:
    return Settings(Deadly(Keyring.from_key("a key of the lab"), lab.journal))


def test_the_row_that_a_process_dies_of_is_found(lab: Lab) -> None:
    (made,) = lab.run(settings(lab))
    assert lab.rows("notifications", "value_double") == [1.0, 2.0]
    assert sorted(lab.rows("quarantine", "error", "sequence")) == [("ValueError", 4), ("WorkerDied", 3)]
    assert (made.rows, made.notifications, made.quarantined) == (4, 2, 2)
    assert lab.run(settings(lab)) == []


def test_a_run_that_was_killed_at_a_batch_begins_with_processes_of_their_own(lab: Lab) -> None:
    lab.workers = Inline()
    with claimed(lab.tables) as root:
        committer = Committer(root, Inline(), Storage())
        with committer.attempt(here=True) as stage:
            (mark,) = stage.iterdir()
        committer.close()
        assert not mark.exists()
        mark.touch()  # as a kill would have left it
    (made,) = lab.run(settings(lab))
    assert (made.notifications, made.quarantined) == (2, 2)


def work_of(lab: Lab) -> tuple[Work, Task]:
    paths = tuple(map(str, lab.segments()))
    return Work(settings(lab).decoder, lab.tables, "label"), Task(0, 4, paths, {})


def test_when_too_many_processes_have_died_the_rest_is_refused_as_it_is(lab: Lab) -> None:
    work, task = work_of(lab)
    reports = apart(work, [task], processes=1)
    assert sum(report.filed("notifications") for report in reports) == 0
    assert sum(report.filed("quarantine") for report in reports) == 4


class Unreadable(Work):
    """Whoever reads the second segment dies."""

    def __call__(self, task: Task) -> Report:
        if any(path.endswith("2.parquet") for path in task.paths):
            os._exit(9)
        return super().__call__(task)


def test_a_segment_whose_readers_die_is_damaged(lab: Lab) -> None:
    work, task = work_of(lab)
    work.__class__ = Unreadable
    reports = apart(work, [task])
    assert sum(report.filed("notifications") for report in reports) == 2
    (damage,) = [each for report in reports for each in report.damaged]
    assert (damage.file, damage.reason) == (lab.segments()[1].name, "whoever reads it dies")


def test_a_process_that_takes_too_long_has_died(lab: Lab) -> None:
    work, task = work_of(lab)
    assert alone(work, task, patience=0.0) is None


def test_what_the_work_raises_is_told_as_it_is(lab: Lab) -> None:
    work, task = work_of(lab)
    lab.tables.write_bytes(b"no folder")
    with pytest.raises(JournalError, match="FileExistsError"):
        apart(work, [task])
