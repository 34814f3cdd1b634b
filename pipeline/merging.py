"""Rows of several Parquet files as one file, without all of them in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

from .arrow import pa, pq

GROUP_BYTES = 64 << 20
GROUP_ROWS = 1 << 16
"""A row group ends with the batch by which it has so many bytes; a batch has at most so many rows."""


def merge(file: BinaryIO, schema: pa.Schema, rows: Iterable[pa.RecordBatch], options: dict[str, Any]) -> None:
    """Write batches, group by group.

    Args:
        file: open for writing.
        schema: of the batches.
        rows: in order.
        options: of `pyarrow.parquet.ParquetWriter`.

    Raises:
        OSError, pa.ArrowException: when that cannot be.
    """
    with pq.ParquetWriter(file, schema, **options) as writer:
        waiting, size = list[pa.RecordBatch](), 0
        for batch in rows:
            waiting.append(batch)
            size += batch.nbytes
            if size >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting, size = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
