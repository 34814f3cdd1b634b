"""Segments of a journal, read batch by batch; what is wrong with one of them is an error that names it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...protocol.errors import JournalError
from .. import missing
from ..forms import check_segment
from ..schema import JOURNAL

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

ROWS = 65_536
"""Rows of a segment that are in memory at a time."""


def batches(path: Path, columns: Sequence[str] | None = None, rows: int = ROWS) -> Iterator[pa.RecordBatch]:
    """The rows of a segment.

    Args:
        path: of its file.
        columns: those that are wanted; default all of `schema.JOURNAL`.
        rows: of a batch at most.

    Raises:
        JournalError: when it cannot be read, is of a newer form, or has other columns than a segment; what
            came before that is good.
    """
    wanted = list(columns or JOURNAL.names)
    try:
        with pq.ParquetFile(path) as file:
            found = file.schema_arrow
            check_segment(path, found.metadata)
            kinds = dict(zip(found.names, found.types, strict=True))
            if wrong := [field.name for field in JOURNAL if kinds.get(field.name) != field.type]:
                raise JournalError(f"{path} is no segment: it lacks {', '.join(wrong)} as a journal has them")
            yield from file.iter_batches(rows, columns=wanted)
    except (OSError, pa.ArrowException) as exc:
        raise JournalError(f"segment {path} cannot be read: {exc}") from exc
