"""Parquet files of one task, beside one another, by table, day and agent."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrow import pa, pc, pq
from ..parquet import written_as
from ..schema import ALARMS, DAY, NOTIFICATIONS, QUARANTINE
from ..storage import Storage, make_private, open_private
from .summary import File, codes, joined, micros

_UNKNOWN = "unknown"
_LONGEST = 120
"""Bytes of an agent's name in the name of a folder."""

NEVER = (1 << 63) - 1
"""Greatest time, of what may be of any."""
_SPECIAL = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
OPEN = 256
"""Files that a task has open at a time at most."""

_SCHEMAS = {"notifications": NOTIFICATIONS, "quarantine": QUARANTINE, "alarms": ALARMS}


def agent_of(name: str | None, publisher: str | None) -> str:
    """Under which agent a table keeps a row."""
    return name or publisher or _UNKNOWN


def folder_of_agent(agent: str) -> str:
    """Folder of an agent's rows in that of a day, named as Spark does.

    A name that would be too long for a file system is cut, and its digest tells it from others that begin so.
    """
    escaped = [_SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", each) for each in agent]
    short = "".join(escaped)
    if len(short.encode()) > _LONGEST:
        sizes = accumulate(len(each.encode()) for each in escaped)
        kept = sum(size <= _LONGEST - 17 for size in sizes)
        short = f"{''.join(escaped[:kept])}~{hashlib.sha256(agent.encode()).hexdigest()[:16]}"
    return f"agent={short}"


def _folder(day: int, agent: str) -> str:
    """Where a table keeps the rows of an agent and a day (days since 1970)."""
    return f"date={np.datetime64(day, 'D')}/{folder_of_agent(agent)}"


class _Open(NamedTuple):
    """A file that is being written; its place once it is finished."""

    place: str
    temporary: Path
    writer: pq.ParquetWriter
    footers: list[pq.FileMetaData]


class Files:
    """Parquet files of one task: one per table, day and agent, or several when there are many of these.

    Args:
        stage: folder that the task writes to.
        label: of the batch, with which every file's name begins.
        task: number of the task.
        storage: writes.
    """

    def __init__(self, stage: Path, label: str, task: int, storage: Storage | None = None) -> None:
        self._storage = storage or Storage()
        self._stage, self._name = stage, f"{label}-{task:05d}"
        self._open: dict[str, _Open] = {}
        self._done: list[File] = []
        self._begun = Counter[str]()

    def write(self, name: str, rows: pa.Table) -> None:
        """Add rows to a table."""
        for folder, some in _by_folder(rows):
            place = f"{name}/{folder}"
            found = self._open.get(place) or self._begin(place, _SCHEMAS[name])
            found.writer.write_table(some)

    def _begin(self, folder: str, schema: pa.Schema) -> _Open:
        if len(self._open) >= OPEN:
            self._finish(next(iter(self._open)))
        number = self._begun[folder]
        self._begun[folder] += 1
        place = f"{folder}/{self._name}{f'-{number:05d}' if number else ''}.parquet"
        path = self._stage / place
        make_private(path.parent)
        # Two attempts of one task may run at once; each has its own file until the end.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        footers = list[pq.FileMetaData]()
        options: Any = {**written_as(schema), "metadata_collector": footers}
        open_private(temporary, "wb").close()  # whose mode stays
        found = self._open[folder] = _Open(
            place, temporary, pq.ParquetWriter(temporary, schema, **options), footers
        )
        return found

    def _finish(self, folder: str) -> None:
        place, temporary, writer, footers = self._open[folder]
        writer.close()
        self._storage.sync(temporary)
        self._storage.rename(temporary, self._stage / place)
        del self._open[folder]
        self._done.append(described(place, (self._stage / place).stat().st_size, footers[0]))

    def close(self) -> list[File]:
        """Finish all files, which are in the stage then."""
        for folder in list(self._open):
            self._finish(folder)
        return self._done

    def discard(self) -> None:
        """Remove what is not finished."""
        for each in self._open.values():
            with suppress(OSError, pa.ArrowException, RuntimeError):  # the error before it is what counts
                each.writer.close()
            each.temporary.unlink(missing_ok=True)


def stored_files(root: Path, tables: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Files of some tables, but for those that are hidden, and their places."""
    for path in (path for name in tables for path in sorted((root / name).rglob("*.parquet"))):
        place = path.relative_to(root)
        if not any(part.startswith((".", "_")) for part in place.parts):
            yield place.as_posix(), path


def described(place: str, size: int, footer: pq.FileMetaData) -> File:
    """A file of a table as its footer tells of it; one without figures may hold rows of any time."""
    first, last = extent(footer, "received_at") or (0, NEVER)
    return File(place, footer.num_rows, size, first, last)


def extent(footer: pq.FileMetaData, column: str) -> tuple[int, int] | None:
    """Least and greatest number (or µs since 1970) of a column; None when the footer does not tell all."""
    names = [footer.schema.column(number).path for number in range(footer.num_columns)]
    if column not in names:
        return None
    ends: list[tuple[int, int]] = []
    for group in range(footer.num_row_groups):
        told: Any = footer.row_group(group).column(names.index(column)).statistics
        if told is None or not told.has_min_max:
            return None
        ends.append((told.min_raw, told.max_raw))
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None


def _by_folder(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    name = _filled(rows.column("name"))
    agents = pc.coalesce(name, _filled(rows.column("publisher")), pa.scalar(_UNKNOWN))
    place, names = codes(agents)
    days = micros(rows.column("received_at")) // DAY
    if len(names) == 1 and days.min() == days.max():
        yield _folder(int(days[0]), str(names[0])), rows
        return
    group = joined(place, days - days.min())
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.diff(group[order], prepend=-1))
    sorted_rows = rows.take(pa.array(order))
    for begin, end in zip(bounds.tolist(), [*bounds[1:].tolist(), len(order)], strict=True):
        first = order[begin]
        yield _folder(int(days[first]), str(names[place[first]])), sorted_rows.slice(begin, end - begin)


def _filled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
