"""One batch of journal rows into the tables, exactly once.

::

    journal rows ─ workers: verify, decode, judge, file ─▶ stage ─ leave out copies ─▶ tables ─▶ commit log
                                    └─ reports ─▶ driver

What the workers wrote becomes visible by renames, and counts when the commit log says so. A batch that was
killed before finds the commit log of the batch before it: its files are removed, and it is done again.
Nothing that grows with the rows comes to the driver: a report has a few numbers per publisher, topic and
window.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from .. import missing
from ..alarm_rules import AlarmRules
from ..decoding.decode import Decoder
from ..schema import JOURNAL
from .committer import STAGE, clear_stage, label, move_in, stage_windows, write_small
from .partition_writer import ANNOUNCED, in_order
from .state import State
from .summary import Report, decode
from .workers import REPORTED, Drop, Refile, Stage

try:
    from pyspark.sql import DataFrame, SparkSession
except ImportError as exc:
    raise missing("pyspark") from exc

WINDOW = 60.0
"""Width of the windows in seconds."""

LATENESS = 30.0
"""Seconds for which a window waits for what was sent in it and comes late."""


@dataclass(frozen=True)
class Settings:
    """How batches are worked on.

    Attributes:
        decoder: of `decode.make_decoder`.
        rules: whose violations are alarms.
        window: width of the windows in seconds; 0 for none.
        lateness: seconds for which a window waits for what comes late.
    """

    decoder: Decoder
    rules: AlarmRules = field(default_factory=AlarmRules)
    window: float = WINDOW
    lateness: float = LATENESS

    @property
    def width(self) -> int:
        """Width of the windows in µs."""
        return round(self.window * 1e6)


@dataclass(frozen=True)
class Batch:
    """What one batch did.

    Attributes:
        number: of the batch.
        rows: of the journal.
        notifications: of them, verified and not stored before.
        quarantined: of them, refused.
        duplicates: of them, copies of what was stored.
        skipped: rows that a batch before had handled, not looked at again.
        alarms: violations of limits.
        windows: that were over, and are in their table now.
        damaged: segments that could not be read as a whole.
        missing: sequence numbers that are absent, of all that was ever stored.
        newest: last receipt of the batch's rows, Unix seconds; 0 without rows.
        seconds: that it took.
        announce: alarms for whoever wants them, as dictionaries; at most `ANNOUNCED`.
        unannounced: alarms beyond these.
    """

    number: int
    rows: int = 0
    notifications: int = 0
    quarantined: int = 0
    duplicates: int = 0
    skipped: int = 0
    alarms: int = 0
    windows: int = 0
    damaged: int = 0
    missing: int = 0
    newest: float = 0.0
    seconds: float = 0.0
    announce: tuple[dict[str, Any], ...] = ()
    unannounced: int = 0


@dataclass
class Staged:
    """Files that wait in the stage, and what the workers told of them."""

    reports: list[Report]
    files: list[str]
    duplicates: int = 0


def stage_rows(
    spark: SparkSession,
    rows: DataFrame,
    root: Path,
    state: State,
    settings: Settings,
    named: str,
    again: bool = False,
) -> Staged:
    """Let the workers file journal rows in the stage, without copies of what the commit log has seen.

    Args:
        spark: the session.
        rows: with the columns of `schema.JOURNAL`.
        root: folder of the tables.
        state: what the tables hold; counts of copies are noted in it, nothing else changes.
        settings: see `Settings`.
        named: how the names of the files begin.
        again: True takes rows that were handled as well, for days that are about to be replaced.
    """
    stage = clear_stage(root)
    handled = {} if again else {recorder: runs.flat() for recorder, runs in state.offsets.items()}
    work = Stage(settings.decoder, stage, named, settings.width, handled, settings.rules)
    reports = _reports(rows.select(*JOURNAL.names).mapInArrow(work, REPORTED))
    staged = Staged(reports, [file.place for report in reports for file in report.files])
    _leave_out_copies(spark, stage, staged, state, settings, named)
    return staged


def _reports(told: DataFrame) -> list[Report]:
    return sorted((decode(row[0]) for row in told.collect()), key=lambda report: report.task)


def _leave_out_copies(
    spark: SparkSession,
    stage: Path,
    staged: Staged,
    state: State,
    settings: Settings,
    named: str,
) -> None:
    numbers = state.repeated(staged.reports)
    offsets = state.repeated_offsets(report for report in staged.reports if report.quarantined)
    ids = state.repeated_ids(staged.reports)
    drops = {
        task: Drop(numbers.get(task, []), ids.get(task, []), offsets.get(task, {}))
        for task in {*numbers, *ids, *offsets}
    }
    if not drops:
        return
    files = {
        report.task: [file.place for file in report.files]
        for report in staged.reports
        if report.task in drops
    }
    tasks = spark.createDataFrame([(task,) for task in drops], "task INT").repartition(len(drops))
    work = Refile(stage, named, settings.width, drops, files, settings.rules)
    again = {report.task: report for report in _reports(tasks.mapInArrow(work, REPORTED))}
    for report in staged.reports:
        other = again.get(report.task)
        if other is not None:
            staged.duplicates += report.notifications - other.notifications
            _exchange(stage, report, other)
    for copies in numbers.values():
        state.count_copies(copies)
    staged.files = [file.place for report in staged.reports for file in report.files]


def _exchange(stage: Path, report: Report, other: Report) -> None:
    """Put the files that a task has written again in place of those before."""
    for file in report.files:
        (stage / file.place).unlink()
    for file in other.files:
        (stage / "again" / file.place).replace(stage / file.place)
    report.files, report.parts, report.ids = other.files, other.parts, other.ids
    report.notifications, report.quarantined = other.notifications, other.quarantined
    report.alarms, report.announced, report.announce = other.alarms, other.announced, other.announce


def commit(root: Path, state: State, staged: Staged, settings: Settings, run: str, number: int) -> Batch:
    """Move the staged files to their tables and note them in the commit log, which is to be written then."""
    for report in staged.reports:
        state.absorb(report)
    newest = max((report.newest for report in staged.reports), default=0)
    closed = (
        list(state.close_windows(newest, round(settings.lateness * 1e6))) if settings.width and newest else []
    )
    staged.files += stage_windows(root / STAGE, label(run, number), closed, settings.width)
    move_in(root, staged.files)
    write_small(root, state)
    state.runs[run] = number
    total = {
        name: sum(getattr(report, name) for report in staged.reports)
        for name in ("rows", "notifications", "quarantined", "repeated", "skipped", "alarms", "announced")
    }
    earliest = chain.from_iterable(report.announce for report in staged.reports)
    announce = tuple(sorted(earliest, key=in_order)[:ANNOUNCED])
    return Batch(
        number,
        rows=total["rows"],
        notifications=total["notifications"],
        quarantined=total["quarantined"],
        duplicates=total["repeated"] + staged.duplicates,
        skipped=total["skipped"],
        alarms=total["alarms"],
        windows=len(closed),
        missing=state.missing(),
        newest=newest / 1e6,
        announce=announce,
        unannounced=total["announced"] - len(announce),
    )
