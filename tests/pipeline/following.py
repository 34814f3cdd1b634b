"""Helpers for tests of tables that follow a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from pzc import Notification
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.storage import Storage
from pzc.pipeline.tables.batches import Batch, Settings
from pzc.pipeline.tables.run import Pace, run
from pzc.pipeline.tables.work import Inline, Workers

from tests.contract.rigs import tables
from tests.pipeline.conftest import append

DAY = 86_400_000
START = 1_700_000_000_000


class Killed(Exception):
    """The process has ended here."""


class Dying(Storage):
    """Does so many steps, and then nothing more: as a process that is killed.

    Args:
        steps: that are done.
        torn: whether the next one, when it adds to a file, is half done.
    """

    def __init__(self, steps: int, torn: bool = False) -> None:
        self.left, self.torn = steps, torn

    def _step(self, do: Callable[[], None]) -> None:
        if self.left <= 0:
            raise Killed
        self.left -= 1
        do()

    def write(self, path: Path, content: bytes) -> None:
        self._step(lambda: Storage.write(self, path, content))

    def append(self, file: BinaryIO, content: bytes) -> None:
        if not self.left and self.torn:
            super().append(file, content[: len(content) // 2])
        self._step(lambda: Storage.append(self, file, content))

    def cut(self, file: BinaryIO, size: int) -> None:
        self._step(lambda: Storage.cut(self, file, size))

    def rename(self, source: Path, target: Path) -> None:
        self._step(lambda: Storage.rename(self, source, target))

    def remove(self, path: Path) -> None:
        self._step(lambda: Storage.remove(self, path))


class Lab:
    """A journal and its tables in a folder; all work is done in this process."""

    def __init__(self, folder: Path, workers: Workers | None = None) -> None:
        self.workers = workers or Inline()
        self.journal, self.tables = folder / "journal", folder / "tables"

    def record(self, rows: Iterable[Notification], recorder: str = "recorder") -> None:
        """Write rows as one segment."""
        with Journal(self.journal, recorder=recorder) as journal:
            for row in rows:
                append(journal, row)

    def settings(self, key: Any = "a key of the lab", **options: Any) -> Settings:
        return Settings(make_decoder(key, journal=self.journal), **options)

    def run(self, settings: Settings | None = None, **options: Any) -> list[Batch]:
        """Take what is there; the batches."""
        made: list[Batch] = []
        storage = options.pop("storage", None)
        pace = Pace(**{"once": True, "settle": 0.0} | options)
        run(self.journal, self.tables, settings or self.settings(), self.workers, made.append, pace, storage)
        return made

    def rows(self, name: str, *columns: str) -> list[Any]:
        """Values of one column, or tuples of several, in order."""
        return tables.rows(self.tables, name, *columns)

    def sequences(self) -> list[int]:
        return sorted(self.rows("notifications", "sequence"))

    def segments(self) -> list[Path]:
        return sorted(self.journal.glob("segment-*.parquet"))
