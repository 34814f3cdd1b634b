"""Tables that follow a feed, by one streaming query; and days made anew from a journal, by the same steps.

::

    Feed.rows ─ foreachBatch ─▶ batches.stage_rows ─▶ Feed.note ─▶ batches.commit

The query's checkpoint lies among the tables. Spark gives a batch again, with the same rows, when it
was not told that it was done; what the commit log has is not done twice.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...protocol.errors import JournalError
from .. import missing
from ..durable import make_folder
from ..locking import lock_file
from ..spark import jobs
from .batches import Batch, Settings, commit, stage_rows
from .committer import clear_stage, label, new_run
from .feeds import Feed
from .rebuilding import REMAKING, replace_days, settled
from .state import State

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as fn
except ImportError as exc:
    raise missing("pyspark") from exc

EVERY = 1.0
"""Seconds between two looks for something new."""

_LOCK = ".pipeline-lock"
_CAUSE = re.compile(r"pzc\.\S*?(\w+): (.+)")

_SETTINGS = {
    # What is damaged or was compacted away must not stop the others; `damage` names it.
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
}


class Following:
    """A streaming query that brings what a feed gives into tables.

    One process at a time works on a folder of tables; use as a context manager, or `close`.

    Args:
        spark: the session.
        feed: what is read; closed with this.
        directory: of the tables; created when absent.
        settings: see `batches.Settings`.
        on_batch: called with each batch that is in the tables, in a thread of Spark's.

    Raises:
        JournalError: when another process works on the tables, or they are in no state to be added to;
            says what to do.
        ConfigError: for a limit that cannot be judged.
    """

    def __init__(
        self,
        spark: SparkSession,
        feed: Feed,
        directory: str | Path,
        settings: Settings,
        on_batch: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        self._spark, self._feed, self._settings, self._on_batch = spark, feed, settings, on_batch
        settings.rules.check()
        self._query: Any = None
        self._error: Exception | None = None
        self._claim = claimed(directory)
        self._root = self._claim.__enter__()
        self._checkpoint = self._root / feed.checkpoint
        try:
            self._state = self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _begin(self) -> State:
        root, width = self._root, self._settings.width
        refuse_half_made(root)
        state = settled(self._spark, root, width)
        clear_stage(root)
        self._run = new_run()
        return state

    def start(self, every: float = EVERY, once: bool = False) -> None:
        """Start the query.

        Args:
            every: seconds between two looks for something new.
            once: end when all that is there now is in the tables.
        """
        for name, value in _SETTINGS.items():
            self._spark.conf.set(name, value)
        rows = self._feed.rows(self._spark)
        writer = rows.writeStream.queryName(self._feed.name).foreachBatch(self._take)
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
            raise JournalError(f"the pipeline has ended: {_cause(str(exc))}") from None
        return True

    def stop(self) -> None:
        """Stop the query; a batch in the middle is done again by the next run."""
        if self._query is not None:
            with suppress(Exception):  # it may have failed, which `wait` tells
                self._query.stop()

    def close(self) -> None:
        """Stop the query and let others work on the tables."""
        self.stop()
        self._feed.close()
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
        root, state = self._root, self._state
        query = json.loads((self._checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
        if state.query == query and number <= state.batch:
            return  # it is in the tables, and only Spark was not told
        state.query, state.batch = query, number
        named = label(self._run, number)
        staged = stage_rows(self._spark, rows, root, state, self._settings, named)
        for report in staged.reports:
            state.handle(report.offsets)
        damaged = self._feed.note(self._checkpoint, number, state)
        made = commit(root, state, staged, self._settings, self._run, number)
        state.write(root)
        seconds = time.monotonic() - began
        made = dataclasses.replace(made, damaged=damaged, seconds=seconds)
        if made.rows or made.skipped or made.damaged:  # a query may begin with a batch of nothing
            self._on_batch(made)


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
        JournalError: when there is no journal; else as `Following`.
        ConfigError: for a limit that cannot be judged.
    """
    settings.rules.check()
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
    make_folder(root)
    held = lock_file(root / _LOCK, f"another process works on the tables in {directory}")
    try:
        yield root
    finally:
        os.close(held)


def _cause(text: str) -> str:
    """What Spark says of a failure; behind its own words an error of this package, when it is one."""
    found = _CAUSE.findall(text)
    return ": ".join(found[-1]) if found else text.strip().splitlines()[0]
