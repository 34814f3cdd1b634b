"""Tables that hold other things than their commit log knows: counted anew, or days of them replaced."""

from __future__ import annotations

import dataclasses
import datetime
import logging
from collections.abc import Sequence
from pathlib import Path

from .. import missing
from ..durable import replace_file
from ..schema import NOTIFICATIONS, QUARANTINE, ddl
from .batches import Batch, Settings, commit, stage_rows
from .commit_log import COMMIT_LOG, Topic, Window
from .committer import (
    STAGE,
    has_rows,
    label,
    move_in,
    new_run,
    remove_days,
    remove_days_of,
    remove_unfinished,
    stage_windows,
    stored_runs,
    write_small,
)
from .state import State
from .summary import Report, decode
from .workers import REPORTED, Recount

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as fn
except ImportError as exc:
    raise missing("pyspark") from exc

log = logging.getLogger("pzc.pipeline")

REMAKING = ".remaking"
"""File among the tables while days are replaced: the days."""

_STORED = f"{ddl(NOTIFICATIONS)}, date DATE, agent STRING"


def settled(spark: SparkSession, root: Path, width: int) -> State:
    """The state of a folder of tables, which hold what it tells of and nothing else from now on.

    Files of a batch that was killed are removed. Where there is no commit log, what is stored is counted.

    Args:
        spark: the session.
        root: folder of the tables.
        width: of the windows in µs.

    Raises:
        JournalError: when the commit log cannot be read.
    """
    known = (root / COMMIT_LOG).exists()
    state = State.read(root, width)
    if known:
        if removed := remove_unfinished(root, state):
            log.warning("%d files of a batch that was killed are removed, it is done again", removed)
        return state
    if has_rows(root):
        log.warning("the tables in %s have no commit log, it is counted anew", root)
        state = recount(spark, root, state)
        state.runs = stored_runs(root)
    state.write(root)  # by which the files of a first batch that is killed are told from those of a lost log
    return state


def recount(spark: SparkSession, root: Path, before: State, without: Sequence[datetime.date] = ()) -> State:
    """The state of what is stored.

    Args:
        spark: the session.
        root: folder of the tables.
        before: the state until now: what cannot be counted anew is taken from it.
        without: days that are left out.
    """
    made = State(before.width)
    made.query, made.batch, made.runs = before.query, before.batch, before.runs
    made.offsets, made.damaged = before.offsets, before.damaged
    width, made.width = made.width, 0
    for report in _stored(spark, root, 0, without):
        made.absorb(report)
    made.width = width
    for report in _refused(spark, root):
        made.handle(report.offsets)
    made.windows, made.closed, made.too_late = before.windows, before.closed, before.too_late
    made.upto = before.upto
    _keep_counts(before, made)
    return made


def _keep_counts(before: State, made: State) -> None:
    """Take over the counts that no table holds."""
    for key, topic in made.topics.items():
        one = before.topics.get(key, Topic())
        topic.late, topic.duplicates = one.late, one.duplicates


def replace_days(
    spark: SparkSession, rows: DataFrame, root: Path, settings: Settings, days: Sequence[datetime.date]
) -> Batch:
    """Replace days of the tables by what the journal has of them.

    Args:
        spark: the session.
        rows: all journal rows of these days.
        root: folder of the tables.
        settings: see `batches.Settings`.
        days: in order; each has rows.
    """
    before = settled(spark, root, settings.width)
    state = recount(spark, root, before, without=days)
    bare, state.width = dataclasses.replace(settings, window=0.0), 0
    run = new_run()
    staged = stage_rows(spark, rows, root, state, bare, label(run, 0), again=True)
    marker = root / REMAKING
    replace_file(marker, f"{days[0]} to {days[-1]}".encode())
    remove_days(root, map(str, days))
    made = commit(root, state, staged, bare, run, 0)
    _keep_counts(before, state)
    write_small(root, state)
    state.width = settings.width
    if settings.width:
        _replace_windows(spark, root, state, run, days)
    state.write(root)
    marker.unlink()
    return made


def _replace_windows(
    spark: SparkSession, root: Path, state: State, run: str, days: Sequence[datetime.date]
) -> None:
    """Windows that begin on these days, of everything stored on them and the days beside them."""
    near = {day + datetime.timedelta(n) for day in days for n in (-1, 0, 1)}
    counted = State(state.width)
    for report in _stored(spark, root, state.width, only=sorted(near)):
        counted.absorb(report)
    closed: list[tuple[tuple[str, str, int], Window]] = []
    for key, window in counted.windows.items():
        start = datetime.datetime.fromtimestamp(key[2] * state.width / 1e6, datetime.UTC).date()
        if start in days and key not in state.windows:
            closed.append((key, window))
    places = stage_windows(root / STAGE, label(run, 0), closed, state.width)
    remove_days_of(root / "windows", map(str, days))
    move_in(root, places)


def _refused(spark: SparkSession, root: Path) -> list[Report]:
    if not any((root / "quarantine").rglob("*.parquet")):
        return []
    rows = spark.read.schema(f"{ddl(QUARANTINE)}, date DATE, agent STRING").parquet(str(root / "quarantine"))
    told = rows.select(*Recount.OFFSETS).mapInArrow(Recount(0, offsets=True), REPORTED)
    return [decode(row[0]) for row in told.collect()]


def _stored(
    spark: SparkSession,
    root: Path,
    width: int,
    without: Sequence[datetime.date] = (),
    only: Sequence[datetime.date] = (),
) -> list[Report]:
    if not has_rows(root):
        return []
    rows = spark.read.schema(_STORED).parquet(str(root / "notifications"))
    if without:
        rows = rows.where(~fn.col("date").isin(list(without)))
    if only:
        rows = rows.where(fn.col("date").isin(list(only)))
    told = rows.select(*Recount.COLUMNS).mapInArrow(Recount(width), REPORTED)
    return [decode(row[0]) for row in told.collect()]
