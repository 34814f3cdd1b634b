"""Parquet files as the pipeline writes them, and the rows of several as one file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

from .arrow import pa, pq

GROUP_BYTES = 64 << 20
GROUP_ROWS = 1 << 16
"""A row group ends with the batch by which it has so many bytes; a batch has at most so many rows."""

_REPEATED = {
    "recorder", "publisher", "name", "topic", "key", "epoch", "dialect", "key_id", "user", "dtype", "rule",
    "severity", "message", "error", "reason", "serializer", "value_string", "content_ref",
}  # fmt: skip
"""Columns that have few values: each is kept once, and numbered."""


def written_as(schema: pa.Schema) -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter` for a schema.

    Numbers and times mostly go up by little steps. Kept as differences they take a tenth of the bytes and
    half of the time.
    """
    single = [field for field in schema if field.name not in _REPEATED]
    counted = [
        field.name for field in single if field.type == pa.int64() or pa.types.is_timestamp(field.type)
    ]
    return {
        "compression": "zstd",
        "use_dictionary": [name for name in schema.names if name in _REPEATED],
        "column_encoding": dict.fromkeys(counted, "DELTA_BINARY_PACKED"),
    }


def by_number(schema: pa.Schema) -> pa.Schema:
    """The same, with texts that have few values as numbers of a list: as they are kept in a file."""
    text = pa.string()
    numbered = pa.dictionary(pa.int32(), text)
    fields = [
        field.with_type(numbered) if field.type == text and field.name in _REPEATED else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def merge(file: BinaryIO, schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> None:
    """Write batches, group by group.

    Args:
        file: open for writing.
        schema: of the batches; what is `by_number` there is written as what it stands for.
        rows: in order.

    Raises:
        OSError, pa.ArrowException: when that cannot be.
    """
    plain = not any(pa.types.is_dictionary(field.type) for field in schema)  # else pyarrow would read numbers
    with pq.ParquetWriter(file, schema, store_schema=plain, **written_as(schema)) as writer:
        waiting, size = list[pa.RecordBatch](), 0
        for batch in rows:
            waiting.append(batch)
            size += batch.nbytes
            if size >= GROUP_BYTES:
                writer.write_table(_together(waiting))
                waiting, size = [], 0
        if waiting:
            writer.write_table(_together(waiting))


def _together(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).unify_dictionaries()
