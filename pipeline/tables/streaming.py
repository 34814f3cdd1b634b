"""Tables that follow a journal, by one streaming query; and days made anew, by the same steps.

::

    readStream.parquet(journal) ─ foreachBatch ─▶ batches.stage_rows ─▶ batches.commit

The query's checkpoint lies among the tables. Spark gives a batch again, with the same segments, when it
was not told that it was done; what the ledger has is not done twice.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from ...protocol.errors import JournalError
from .. import missing
from ..locking import lock_file
from ..schema import JOURNAL, NOTIFICATIONS, ddl, segments
from ..spark import jobs
from ..spark.limits import violations
from .batches import Batch, Settings, commit, stage_rows
from .damage import find_damage
from .keeping import clear_stage, has_rows, label, new_run, remove_unfinished
from .ledger import Ledger
from .rebuilding import REMAKING, recount, replace_days

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as fn
except ImportError as exc:
    raise missing("pyspark") from exc

log = logging.getLogger("pzc.pipeline")

CHECKPOINT = ".checkpoint-journal"
"""Folder among the tables: Spark's memory of the segments that it has given, by their absolute paths."""

EVERY = 1.0
"""Seconds between two looks at the journal."""

MAX_FILES = 64
"""Segments of one batch at most."""

_MAX_AGE = "60d"
_LOCK = ".pipeline-lock"
_SEGMENTS = "segment-*.parquet"

_SETTINGS = {
    # What is damaged or was compacted away must not stop the others; `damage` names it.
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
}


class Following:
    """A streaming query that brings a journal's segments into tables.

    One process at a time works on a folder of tables; use as a context manager, or `close`.

    Args:
        spark: the session.
        journal: directory of the journal.
        directory: of the tables; created when absent.
        settings: see `batches.Settings`.
        on_batch: called with each batch that is in the tables, in a thread of Spark's.
        max_files: segments of one batch at most.

    Raises:
        JournalError: when there is no journal, another process works on the tables, or they are in no
            state to be added to; says what to do.
        ConfigError: for a limit that cannot be judged.
    """

    def __init__(
        self,
        spark: SparkSession,
        journal: str | Path,
        directory: str | Path,
        settings: Settings,
        on_batch: Callable[[Batch], None] = lambda batch: None,
        max_files: int = MAX_FILES,
    ) -> None:
        self._spark, self._settings, self._on_batch = spark, settings, on_batch
        self._journal, self._max_files = Path(journal).absolute(), max_files
        segments(self._journal)
        check_limits(spark, settings)
        self._query: Any = None
        self._error: Exception | None = None
        self._claim = claimed(directory)
        self._root = self._claim.__enter__()
        self._checkpoint = checkpoint_of(self._root, self._journal)
        try:
            self._ledger = self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _begin(self) -> Ledger:
        root, width = self._root, self._settings.width
        refuse_half_made(root)
        ledger = Ledger.read(root, width)
        if not ledger.runs and has_rows(root):
            log.warning("the tables in %s have no ledger, it is counted anew", root)
            ledger = recount(self._spark, root, ledger)
        elif removed := remove_unfinished(root, ledger):
            log.warning("%d files of a batch that was killed are removed, it is done again", removed)
        clear_stage(root)
        self._run = new_run()
        return ledger

    def start(self, every: float = EVERY, once: bool = False) -> None:
        """Start the query.

        Args:
            every: seconds between two looks at the journal.
            once: end when all segments that are there now are in the tables.
        """
        for name, value in _SETTINGS.items():
            self._spark.conf.set(name, value)
        rows = (
            self._spark.readStream.schema(ddl(JOURNAL))
            .option("maxFilesPerTrigger", self._max_files)
            .option("maxFileAge", _MAX_AGE)
            .option("pathGlobFilter", _SEGMENTS)
            .parquet(jobs.literal(self._journal))
        )
        writer = rows.writeStream.queryName("pzc-journal").foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        if once:
            self._query = writer.trigger(availableNow=True).start()
        else:
            self._query = writer.trigger(processingTime=f"{round(every * 1000)} milliseconds").start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the query's end; True when it has ended.

        Args:
            timeout: seconds; None waits until it ends.

        Raises:
            JournalError: when it has failed; the tables are as after the last batch.
        """
        from pyspark.errors import StreamingQueryException

        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._query.awaitTermination(0.2):
                if deadline is not None and time.monotonic() > deadline:
                    return False
        except StreamingQueryException as exc:
            if self._error is not None:
                raise self._error from None
            raise JournalError(f"the pipeline has ended: {str(exc).strip().splitlines()[0]}") from None
        return True

    def stop(self) -> None:
        """Stop the query; a batch in the middle is done again by the next run."""
        if self._query is not None:
            with suppress(Exception):  # it may have failed, which `wait` tells
                self._query.stop()

    def close(self) -> None:
        """Stop the query and let others work on the tables."""
        self.stop()
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.__exit__(None, None, None)

    def _take(self, rows: DataFrame, number: int) -> None:
        try:
            self._take_batch(rows, number)
        except Exception as exc:
            self._error = exc
            raise

    def _take_batch(self, rows: DataFrame, number: int) -> None:
        began = time.monotonic()
        root, ledger = self._root, self._ledger
        query = json.loads((self._checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
        if ledger.query == query and number <= ledger.batch:
            return  # it is in the tables, and only Spark was not told
        ledger.query, ledger.batch = query, number
        named = label(self._run, number)
        staged = stage_rows(self._spark, rows, root, ledger, self._settings, named)
        for report in staged.reports:
            ledger.handle(report.offsets)
        damaged = find_damage(batch_files(self._checkpoint, number), ledger, time.time_ns() // 1000)
        ledger.damaged += damaged
        made = commit(root, ledger, staged, self._settings, self._run, number)
        ledger.write(root)
        seconds = time.monotonic() - began
        self._on_batch(dataclasses.replace(made, damaged=len(damaged), seconds=seconds))


def backfill(
    spark: SparkSession,
    journal: str | Path,
    directory: str | Path,
    settings: Settings,
    first: datetime.date,
    last: datetime.date,
) -> tuple[Batch, tuple[datetime.date, ...]]:
    """Make the days from ``first`` to ``last`` (UTC, both included) anew, whatever the tables hold.

    Days without rows in the journal stay as they are. What was stored on another day is not stored again.

    Returns:
        What was made, and the days.

    Raises:
        JournalError, ConfigError: as `Following`.
    """
    check_limits(spark, settings)
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    began = time.monotonic()
    with claimed(directory) as root:
        days = [first + datetime.timedelta(n) for n in range((last - first).days + 1)]
        rows = jobs.of_days(jobs.read_journal(spark, journal), days)
        present = sorted(row[0] for row in rows.select(fn.to_date("received_at")).distinct().collect())
        if not present:
            return Batch(-1), ()
        made = replace_days(spark, rows, root, settings, present)
        return dataclasses.replace(made, seconds=time.monotonic() - began), tuple(present)


def check_limits(spark: SparkSession, settings: Settings) -> None:
    """Let SQL look at the limits before anything is written.

    Raises:
        ConfigError: for a limit that cannot be judged.
    """
    if settings.limits:
        violations(spark.createDataFrame([], ddl(NOTIFICATIONS)), settings.limits)


def refuse_half_made(root: Path) -> None:
    """Refuse tables some days of which were being replaced when the process was killed.

    Raises:
        JournalError: says what to do.
    """
    marker = root / REMAKING
    if marker.exists():
        days = marker.read_text(encoding="utf-8")
        raise JournalError(f"making {days} anew was interrupted: run pzc pipeline backfill for them again")


@contextmanager
def claimed(directory: str | Path) -> Iterator[Path]:
    """The folder of tables, for one process at a time."""
    root = Path(directory).absolute()
    root.mkdir(parents=True, exist_ok=True)
    held = lock_file(root / _LOCK, f"another process works on the tables in {directory}")
    try:
        yield root
    finally:
        os.close(held)


def checkpoint_of(root: Path, journal: Path) -> Path:
    """The checkpoint of a journal; another one when it has moved, and the ledger knows what is done."""
    return root / CHECKPOINT / hashlib.sha256(os.fsencode(journal)).hexdigest()[:16]


def batch_files(checkpoint: Path, number: int) -> list[Path]:
    """Segments that Spark gave with a batch, as its log of the source tells."""
    folder = checkpoint / "sources" / "0"
    for path in (folder / str(number), folder / f"{number}.compact"):
        with suppress(FileNotFoundError):
            lines = path.read_text(encoding="utf-8").splitlines()[1:]
            entries = [json.loads(line) for line in lines]
            return [
                Path(unquote(urlparse(entry["path"]).path))
                for entry in entries
                if entry.get("batchId") == number
            ]
    return []
