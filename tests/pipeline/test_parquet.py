"""Parquet files as they are written: which columns are kept how."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from pzc.pipeline.parquet import by_number, merge, written_as  # noqa: E402
from pzc.pipeline.schema import JOURNAL, TABLES  # noqa: E402

SCHEMAS = [JOURNAL, *TABLES.values()]


@pytest.mark.parametrize("schema", SCHEMAS, ids=["journal", *TABLES])
def test_every_schema_can_be_written_and_read_again(schema: Any) -> None:
    """Also columns that hold nothing, and the greatest numbers."""
    ends = [-(1 << 63), (1 << 63) - 1, None]
    rows = pa.table(
        [ends if field.type == pa.int64() else pa.nulls(3, field.type) for field in schema], schema=schema
    )
    file = io.BytesIO()
    pq.write_table(rows, file, **written_as(schema))
    assert pq.read_table(io.BytesIO(file.getvalue())).equals(rows)


def test_numbers_and_times_that_go_up_take_less_than_three_bytes_each() -> None:
    """Steps of 1 to 2000, which no compression of eight bytes finds."""
    steps = np.random.default_rng(1).integers(1, 2000, 100_000).cumsum()
    columns = {"offset": pa.array(steps), "sent_at": pa.array(steps).cast(pa.timestamp("us", "UTC"))}
    table, file = pa.table(columns), io.BytesIO()
    pq.write_table(table, file, **written_as(table.schema))
    assert len(file.getvalue()) < 2 * 3 * 100_000


def test_what_has_few_values_is_kept_once_each() -> None:
    """By the encodings that the file's footer names."""
    table, file = (
        pa.table({"topic": ["changed"] * 1000, "message_id": list(map(str, range(1000)))}),
        io.BytesIO(),
    )
    pq.write_table(table, file, **written_as(table.schema))
    group = pq.ParquetFile(io.BytesIO(file.getvalue())).metadata.row_group(0)
    kept = {group.column(number).path_in_schema: group.column(number).encodings for number in (0, 1)}
    assert "RLE_DICTIONARY" in kept["topic"]
    assert "RLE_DICTIONARY" not in kept["message_id"]


def test_texts_merged_by_their_numbers_are_texts_again() -> None:
    """Each batch has a list of its own, and one of them names nothing."""
    schema = pa.schema({"topic": pa.string(), "offset": pa.int64()})
    texts, file = [["a", "b"], ["b", None], [None, None], ["c", "a"]], io.BytesIO()
    batches = [
        pa.record_batch(
            [pa.array(each).cast(by_number(schema).field(0).type), [1, 2]], schema=by_number(schema)
        )
        for each in texts
    ]
    merge(file, by_number(schema), batches)
    found = pq.read_table(io.BytesIO(file.getvalue()))
    assert found.schema.equals(schema)
    assert found["topic"].to_pylist() == [text for each in texts for text in each]


def test_what_a_schema_says_of_itself_is_kept_by_a_merge() -> None:
    """A journal's form stands there."""
    schema, file = pa.schema({"offset": pa.int64()}, {"form": "7"}), io.BytesIO()
    merge(file, schema, [pa.record_batch([[1, 2]], schema=schema)])
    assert pq.read_schema(io.BytesIO(file.getvalue())).metadata == {b"form": b"7"}
