"""What a worker tells of the rows it wrote: a few numbers per publisher and topic, never the rows.

It travels from workers to the driver as MessagePack.
"""

from __future__ import annotations

import datetime
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..arrow import pa, pc
from .quantile_sketch import Figures, figures_of

Ints = NDArray[np.int64]


class Cell(msgspec.Struct, array_like=True):
    """Figures of one publisher, epoch and topic.

    Attributes:
        count: of notifications.
        first_sent: µs since 1970; None when no notification tells.
        last_sent: as ``first_sent``.
        timed: notifications that tell when they were sent.
        ages: in ms.
        values: of the contents that are numbers.
    """

    count: int
    first_sent: int | None
    last_sent: int | None
    timed: int
    ages: Figures
    values: Figures


class Part(msgspec.Struct, array_like=True):
    """Notifications of one publisher, epoch and topic, under one name.

    Attributes:
        publisher: agent id, or endpoint.
        epoch: None for PZC00.
        topic: as published.
        name: of the publisher.
        runs: first and last sequence numbers of the ranges without a hole, in turn.
        oldest: first receipt, µs since 1970.
        cell: its figures.
    """

    publisher: str
    epoch: int | None
    topic: str
    name: str | None
    runs: list[int]
    oldest: int
    cell: Cell


class Damage(msgspec.Struct, array_like=True):
    """A segment that could not be read as a whole.

    Attributes:
        file: its name.
        rows: that its footer tells; None without one.
        read: rows that could be read.
        reason: what is wrong, one line.
        found: µs since 1970; 0 until the driver notes it.
    """

    file: str
    rows: int | None
    read: int
    reason: str
    found: int = 0


class Copies(msgspec.Struct, array_like=True):
    """Numbers that were left out because they are stored: ranges, first and last in turn."""

    publisher: str
    epoch: int | None
    topic: str
    runs: list[int]


class File(msgspec.Struct, array_like=True):
    """A file of a table; times in µs since 1970.

    Attributes:
        place: its path below the folder of all tables.
        rows: of it.
        size: in bytes.
        first: its earliest row by receipt.
        last: its latest one.
    """

    place: str
    rows: int
    size: int
    first: int
    last: int

    @property
    def table(self) -> str:
        """Name of its table."""
        return self.place.partition("/")[0]

    @property
    def folder(self) -> str:
        """That it is in, below the folder of all tables."""
        return self.place.rpartition("/")[0]

    @property
    def day(self) -> datetime.date:
        """That its folder is called after."""
        return datetime.date.fromisoformat(self.place.split("/")[1].partition("=")[2])


class Report(msgspec.Struct):
    """What one task did.

    Attributes:
        task: its number, by which its files are called.
        rows: of the journal that it was given and that no run before had handled.
        skipped: rows that a run before had handled, by their offsets.
        repeated: copies of a notification that is among the task's own.
        copies: of them, by publisher and topic.
        ids: of notifications without a number, one behind the other (`known_ids`).
        newest: last receipt, µs since 1970; 0 without rows.
        announced: alarms that are to be told.
        announce: the earliest of these, as dictionaries.
        offsets: of the rows, by recorder, as ranges.
        parts: of the notifications.
        files: written.
        damaged: segments that could not be read as a whole.
        days: on which rows were received, in days since 1970.
    """

    task: int
    rows: int = 0
    skipped: int = 0
    repeated: int = 0
    copies: list[tuple[str, str, int]] = []
    ids: bytes = b""
    newest: int = 0
    announced: int = 0
    announce: list[dict[str, Any]] = []
    offsets: dict[str, list[int]] = {}
    parts: list[Part] = []
    files: list[File] = []
    damaged: list[Damage] = []
    days: list[int] = []

    def filed(self, table: str) -> int:
        """Rows that were written to a table."""
        return sum([file.rows for file in self.files if file.table == table])


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Report).decode


def micros(column: pa.ChunkedArray | pa.Array) -> Ints:
    """Times as µs since 1970; the smallest integer where there is none."""
    return numbers_of(column.cast(pa.int64()), np.iinfo(np.int64).min)


def numbers_of(column: pa.ChunkedArray | pa.Array, nothing: int = -1) -> Ints:
    """Whole numbers; ``nothing`` where there is none."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.fill_null(nothing).to_numpy(zero_copy_only=False)


def codes(column: pa.ChunkedArray | pa.Array) -> tuple[Ints, list[object]]:
    """Each row's place in the list of different values, and that list; null is one of them."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = whole.dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary.to_pylist()


def joined(*columns: Ints) -> Ints:
    """One number per row, equal exactly where all columns are; small again after each column."""
    together = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        together = np.unique(together * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    return together


def series_of(table: pa.Table) -> Ints:
    """One number per row, equal where publisher, epoch and topic are."""
    return joined(*(codes(table.column(name))[0] for name in ("publisher", "topic", "epoch")))


def runs_of(numbers: Ints) -> list[int]:
    """IntervalSet of numbers in ascending order, first and last in turn; repetitions count once."""
    ends = np.flatnonzero(np.diff(numbers) > 1)
    firsts, lasts = np.concatenate(([0], ends + 1)), np.concatenate((ends, [len(numbers) - 1]))
    return np.column_stack((numbers[firsts], numbers[lasts])).ravel().tolist() if len(numbers) else []


def offsets_of(table: pa.Table | pa.RecordBatch) -> dict[str, list[int]]:
    """Offsets of journal rows by recorder, as ranges."""
    place, recorders = codes(table.column("recorder"))
    offset = numbers_of(table.column("offset"))
    return {
        str(recorder): runs_of(np.sort(offset[place == number])) for number, recorder in enumerate(recorders)
    }


def parts_of(table: pa.Table) -> list[Part]:
    """What `Report.parts` says of notifications (`schema.NOTIFICATIONS`), without duplicates."""
    if not table.num_rows:
        return []
    key = joined(series_of(table), codes(table.column("name"))[0])
    received, sent = micros(table.column("received_at")), micros(table.column("sent_at"))
    sequence = numbers_of(table.column("sequence"))
    order = np.lexsort((sequence, key))
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    cells = _cells(starts, received[order], sent[order], _values(table)[order])
    found: list[Part] = []
    columns = [table.column(name) for name in ("publisher", "epoch", "topic", "name")]
    for (begin, end), cell in zip(pairwise([*starts.tolist(), len(order)]), cells, strict=True):
        rows = order[begin:end]
        publisher, epoch, topic, name = (column[int(rows[0])].as_py() for column in columns)
        numbers = sequence[rows]
        runs = runs_of(numbers[numbers >= 0])
        found.append(Part(publisher, epoch, topic, name, runs, int(received[rows].min()), cell))
    return found


def _values(table: pa.Table) -> NDArray[np.float64]:
    long = table.column("value_long").cast(pa.float64(), safe=False)
    value = pc.coalesce(table.column("value_double"), long).combine_chunks()
    return value.fill_null(np.nan).to_numpy(zero_copy_only=False)


def _cells(starts: Ints, received: Ints, sent: Ints, values: NDArray[np.float64]) -> list[Cell]:
    timed = sent != np.iinfo(np.int64).min
    ages = figures_of(np.where(timed, (received - np.where(timed, sent, 0)) / 1000, np.nan), starts)
    numbers = figures_of(values, starts)
    least, greatest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    columns = (
        np.diff(starts, append=len(received)),
        np.minimum.reduceat(np.where(timed, sent, greatest), starts),
        np.maximum.reduceat(np.where(timed, sent, least), starts),
        np.add.reduceat(timed.astype(np.int64), starts),
    )
    rows = zip(*(column.tolist() for column in columns), ages, numbers, strict=True)
    return [
        Cell(count, first if told else None, last if told else None, told, age, value)
        for count, first, last, told, age, value in rows
    ]
