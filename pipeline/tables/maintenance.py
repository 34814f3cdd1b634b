"""Maintenance of tables while they grow: small files become large ones, days that are too old go.

::

    merge        files of one folder → one in the stage → renamed in → one record in the commit log
    retention    all files of a day → one record
    an hour later    what a record took out is removed: whoever has a snapshot of before reads it until then

It works between two batches. A kill leaves the tables as they were before or after a record.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from ..arrow import pa, pq
from ..parquet import GROUP_ROWS, by_number, merge
from ..schema import TABLES
from ..storage import make_private, open_private
from .commit_log import Commit
from .committer import Committer
from .folders import Folders
from .summary import File

log = logging.getLogger("pzc.pipeline")

MERGES = 8
"""Merges between two batches at most."""

KEPT = 3600.0
"""Seconds for which a file that was taken out stays on the disk."""

RETRY = 60.0
"""Seconds without a merge when the disk had no room for one: rows may have room still."""

_NUMBERS = 900_000_000
"""Merges are numbered from here on, batches from 0."""


class Maintenance:
    """Merges and removes files of tables.

    Args:
        committer: of the tables.
        keep_days: days of receipt that are kept beside today's; None keeps all.
        now: Unix seconds.
    """

    def __init__(self, committer: Committer, keep_days: int | None, now: float) -> None:
        self._committer, self._keep_days = committer, keep_days
        self._folders = Folders(committer.files, now)
        self._number, self._not_before = _NUMBERS, -math.inf
        self._leaving = deque(sorted((path.stat().st_mtime, path) for path in committer.left))

    def work(self, now: float) -> int:
        """Do what is due; how many merges were made. Where the disk refuses one, it is tried again later.

        Raises:
            OSError: when the disk refuses anything else.
        """
        for file in reversed(self._committer.files):
            if not self._folders.add(file, now):  # those before it came earlier
                break
        while self._leaving and self._leaving[0][0] <= now - KEPT:
            self._committer.storage.remove(self._leaving.popleft()[1])
        if self._keep_days is not None:
            self._take_out(self._folders.expired(now, self._keep_days), [], now)
        for made in range(MERGES):
            folder, files = self._folders.due(now) if now >= self._not_before else ("", [])
            if not files:
                return made
            try:
                merged = self._merged(files)
            except pa.ArrowException as exc:
                log.warning("files in %s cannot be merged: %s", folder, str(exc))
                self._folders.leave(folder)
                continue
            except OSError as exc:
                log.warning("files in %s cannot be merged, in a minute again: %s", folder, exc)
                self._committer.clear()  # what was written takes the room of rows
                self._not_before = now + RETRY
                return made
            self._take_out(files, [merged], now)
        return MERGES

    def _take_out(self, files: Sequence[File], made: Sequence[File], now: float) -> None:
        if not files:
            return
        places = [file.place for file in files]
        self._committer.commit(Commit(0, list(made), places), now)
        self._folders.replace(files, made)
        self._leaving.extend((now, self._committer.root / place) for place in places)

    def _merged(self, files: Sequence[File]) -> File:
        """One file in the stage with the rows of others."""
        committer = self._committer
        first = files[0]
        name = f"{committer.label(self._number)}.parquet"
        self._number += 1
        place = f"{first.folder}/{name}"
        path = committer.clear() / place
        make_private(path.parent)
        schema = by_number(TABLES[first.table])
        rows = chain.from_iterable(_read(committer.root / file.place, schema) for file in files)
        with open_private(path, "wb") as sink:
            merge(sink, schema, rows)
        committer.storage.sync(path)
        ends = min(file.first for file in files), max(file.last for file in files)
        return File(place, sum(file.rows for file in files), path.stat().st_size, *ends)


def _read(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file with all columns of its table, also of those that were added later."""
    try:
        numbered = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        with pq.ParquetFile(path, read_dictionary=numbered) as file:
            for batch in file.iter_batches(GROUP_ROWS):
                columns = [
                    batch.column(field.name).cast(field.type)
                    if field.name in batch.schema.names
                    else pa.nulls(len(batch), field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except OSError as exc:  # so pyarrow tells of some damage; it is no matter of the disk that is written to
        raise pa.ArrowInvalid(f"{path}: {exc}") from exc
