"""Segments of a journal, read batch by batch; what is wrong with one of them is an error that names it.

::

    a row group cannot be read           the others are, then SegmentDamaged
    rows that no recorder can write      the same
    no footer, other columns             SegmentDamaged, nothing was read
    the file is gone                     SegmentGone: it was compacted or removed
    a form that this version has not     JournalError
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...protocol.errors import JournalError
from ..arrow import pa, pq
from ..schema import FORM_KEY, JOURNAL, JOURNAL_FORM, LAST_TIME, check_form, segment_recorder, segments
from ..tables.commit_log import FOLDER as COMMITS
from ..tables.summary import numbers_of

ROWS = 65_536
"""Rows of a segment that are in memory at a time."""

_BROKEN = (OSError, pa.ArrowException, ValueError, MemoryError)
"""What pyarrow raises for bytes that are no Parquet."""

_DIGITS = 9
"""Of a form; more are none."""

_NEEDED = ("recorder", "offset", "received_at")


class SegmentDamaged(JournalError):
    """Some of a segment cannot be read; what was yielded is good.

    Args:
        path: of its file.
        reason: what is wrong with it, one line.
        rows: that its footer tells; None without one.
        read: rows that could be read.
    """

    def __init__(self, path: Path, reason: str, rows: int | None = None, read: int = 0) -> None:
        super().__init__(f"segment {path} cannot be read: {reason}")
        self.path, self.reason, self.rows, self.read = path, reason, rows, read


class SegmentGone(JournalError):
    """A segment is not there any more: it was compacted into another one, or removed for its age."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"segment {path} cannot be read: it is gone")


def batches(path: Path, columns: Sequence[str] | None = None, rows: int = ROWS) -> Iterator[pa.RecordBatch]:
    """The rows of a segment that can be read.

    Args:
        path: of its file.
        columns: those that are wanted; default all of `schema.JOURNAL`.
        rows: of a batch at most.

    Raises:
        SegmentDamaged: at the end, when not all could be read.
        SegmentGone: when there is no such file.
        JournalError: when it is of a newer form.
    """
    wanted = list(columns or JOURNAL.names)
    read, reasons = 0, list[str]()
    with opened(path) as file:
        total = file.metadata.num_rows
        for group in range(file.num_row_groups):
            try:
                for batch in file.iter_batches(rows, row_groups=[group], columns=wanted):
                    good = sound(batch)
                    if len(good) < len(batch):
                        reasons.append(f"{len(batch) - len(good)} rows are none that a recorder writes")
                    yield good
                    read += len(good)
            except _BROKEN as exc:
                reasons.append(_line(exc))
    if reasons:
        raise SegmentDamaged(path, reasons[0], total, read)


def part(rows: Iterable[pa.RecordBatch], first: int, end: int) -> Iterator[pa.RecordBatch]:
    """The rows of a segment from one, counted from 0, up to another, which is left out."""
    passed = 0
    for batch in rows:
        begin, passed = passed, passed + len(batch)
        low, high = max(first, begin), min(end, passed)
        if low < high:
            yield batch.slice(low - begin, high - low)


def check_journal(directory: str | Path) -> None:
    """Refuse a journal whose newest segments are of a newer form.

    Raises:
        JournalError: as `schema.check_form`, or when there is no journal.
    """
    newest = {segment_recorder(path): path for _, path in segments(directory)}
    if not newest and (Path(directory) / COMMITS).is_dir():
        raise JournalError(f"no journal at {directory}: it holds tables")
    for path in newest.values():
        with suppress(SegmentDamaged, SegmentGone):  # others find that out
            opened(path).close()


def opened(path: Path) -> pq.ParquetFile:
    """A segment, to be closed; errors as `batches`."""
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise SegmentGone(path) from None
    except _BROKEN as exc:
        raise SegmentDamaged(path, _line(exc)) from exc
    try:
        _check(path, file)
    except BaseException:
        file.close()
        raise
    return file


def _check(path: Path, file: pq.ParquetFile) -> None:
    try:
        found = file.schema_arrow
    except _BROKEN as exc:
        raise SegmentDamaged(path, _line(exc)) from exc
    form = (found.metadata or {}).get(FORM_KEY, b"1")
    whole = form.isdigit() and len(form) <= _DIGITS
    check_form(path, int(form) if whole else form.decode(errors="replace"), JOURNAL_FORM)
    kinds = dict(zip(found.names, found.types, strict=True))
    if wrong := [field.name for field in JOURNAL if kinds.get(field.name) != field.type]:
        reason = f"it is no segment: it lacks {', '.join(wrong)} as a journal has them"
        raise SegmentDamaged(path, reason, file.metadata.num_rows)


def _line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:500] or type(exc).__name__


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch (`schema.JOURNAL`, or some of its columns) that a recorder can have written.

    Their text is text, their offset is one, and their time is one of the calendar; mostly that is so of all.
    """
    keep = np.ones(len(batch), np.bool_)
    for field in batch.schema:
        column = batch.column(field.name)
        if field.name in _NEEDED and column.null_count:
            keep &= column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_string(field.type):
            keep &= _are_text(column)
        elif field.name == "offset":
            keep &= numbers_of(column) >= 0
        elif field.name == "received_at":
            times = numbers_of(column.cast(pa.int64()))
            keep &= (times >= 0) & (times <= LAST_TIME)
    return batch if keep.all() else batch.filter(pa.array(keep))


def _are_text(column: pa.Array) -> NDArray[np.bool_]:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([_is_text(each) for each in column.cast(pa.binary()).to_pylist()], np.bool_)
    return np.ones(len(column), np.bool_)


def _is_text(raw: bytes | None) -> bool:
    try:
        (raw or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
