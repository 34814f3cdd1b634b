"""Helpers for tests of tables that follow a journal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.recording.journal import Journal, JournalRow
from pzc.pipeline.spark import jobs
from pzc.pipeline.tables.batches import Batch, Settings
from pzc.pipeline.tables.feeds import JournalFeed
from pzc.pipeline.tables.streaming import Following

DAY = 86_400_000
START = 1_700_000_000_000


class Lab:
    """A journal and its tables in a folder, with the one session of all tests."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.journal, self.tables = spark, folder / "journal", folder / "tables"

    def record(self, rows: Iterable[JournalRow], recorder: str = "recorder") -> None:
        """Write rows as one segment."""
        with Journal(self.journal, recorder=recorder) as journal:
            for row in rows:
                journal.append(row)

    def settings(self, key: Any = "a key of the lab", **options: Any) -> Settings:
        return Settings(make_decoder(key, journal=self.journal), **options)

    def run(self, settings: Settings | None = None, **options: Any) -> list[Batch]:
        """Take what is there; the batches."""
        made: list[Batch] = []
        settings = settings or self.settings()
        feed = JournalFeed(self.journal, **options)
        with Following(self.spark, feed, self.tables, settings, made.append) as following:
            following.start(once=True)
            assert following.wait(100), "the query has not ended in time"
        return made

    def rows(self, name: Any, *columns: str) -> list[Any]:
        """Values of one column, or tuples of several, in order."""
        found = jobs.read_table(self.spark, self.tables, name).select(*columns).collect()
        return sorted((row[0] if len(columns) == 1 else tuple(row) for row in found), key=repr)

    def sequences(self) -> list[int]:
        return sorted(self.rows("notifications", "sequence"))

    def segments(self) -> list[Path]:
        return sorted(self.journal.glob("segment-*.parquet"))
