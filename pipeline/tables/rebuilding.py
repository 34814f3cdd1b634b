"""Tables that hold more, or other things, than their ledger knows: counted anew, or days of them replaced."""

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
from .commit_log import LEDGER, Topic, Window
from .filing import REPORTED, Recount
from .keeping import (
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
from .ledger import Ledger
from .summary import Report, decode

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as fn
except ImportError as exc:
    raise missing("pyspark") from exc

log = logging.getLogger("pzc.pipeline")

REMAKING = ".remaking"
"""File among the tables while days are replaced: the days."""

_STORED = f"{ddl(NOTIFICATIONS)}, date DATE, agent STRING"


def settled(spark: SparkSession, root: Path, width: int) -> Ledger:
    """The ledger of a folder of tables, which hold what it tells of and nothing else from now on.

    Files of a batch that was killed are removed. Where there is no ledger, what is stored is counted.

    Args:
        spark: the session.
        root: folder of the tables.
        width: of the windows in µs.

    Raises:
        JournalError: when the ledger cannot be read.
    """
    known = (root / LEDGER).exists()
    ledger = Ledger.read(root, width)
    if known:
        if removed := remove_unfinished(root, ledger):
            log.warning("%d files of a batch that was killed are removed, it is done again", removed)
        return ledger
    if has_rows(root):
        log.warning("the tables in %s have no ledger, it is counted anew", root)
        ledger = recount(spark, root, ledger)
        ledger.runs = stored_runs(root)
    ledger.write(root)  # by which the files of a first batch that is killed are told from lost ledgers' ones
    return ledger


def recount(spark: SparkSession, root: Path, before: Ledger, without: Sequence[datetime.date] = ()) -> Ledger:
    """A ledger of what is stored.

    Args:
        spark: the session.
        root: folder of the tables.
        before: the ledger until now: what cannot be counted anew is taken from it.
        without: days that are left out.
    """
    made = Ledger(before.width)
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


def _keep_counts(before: Ledger, made: Ledger) -> None:
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
    ledger = recount(spark, root, before, without=days)
    bare, ledger.width = dataclasses.replace(settings, window=0.0), 0
    run = new_run()
    staged = stage_rows(spark, rows, root, ledger, bare, label(run, 0), again=True)
    marker = root / REMAKING
    replace_file(marker, f"{days[0]} to {days[-1]}".encode())
    remove_days(root, map(str, days))
    made = commit(root, ledger, staged, bare, run, 0)
    _keep_counts(before, ledger)
    write_small(root, ledger)
    ledger.width = settings.width
    if settings.width:
        _replace_windows(spark, root, ledger, run, days)
    ledger.write(root)
    marker.unlink()
    return made


def _replace_windows(
    spark: SparkSession, root: Path, ledger: Ledger, run: str, days: Sequence[datetime.date]
) -> None:
    """Windows that begin on these days, of everything stored on them and the days beside them."""
    near = {day + datetime.timedelta(n) for day in days for n in (-1, 0, 1)}
    counted = Ledger(ledger.width)
    for report in _stored(spark, root, ledger.width, only=sorted(near)):
        counted.absorb(report)
    closed: list[tuple[tuple[str, str, int], Window]] = []
    for key, window in counted.windows.items():
        start = datetime.datetime.fromtimestamp(key[2] * ledger.width / 1e6, datetime.UTC).date()
        if start in days and key not in ledger.windows:
            closed.append((key, window))
    places = stage_windows(root / STAGE, label(run, 0), closed, ledger.width)
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
