from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pzc.pipeline import schema
from pzc.protocol.errors import JournalError


def test_the_journal_keeps_the_five_frames_and_what_the_recorder_knows() -> None:
    assert schema.JOURNAL.names == [
        *("header", "serializer", "content", "msgid", "signature"),
        *("recorder", "offset", "received_at", "publisher", "name", "epoch", "topic", "sequence"),
        *("sent_at", "key_id", "content_ref"),
    ]


@pytest.mark.parametrize("name", ["received_at", "sent_at"])
def test_times_are_utc_microseconds(name: str) -> None:
    assert schema.JOURNAL.field(name).type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    "table",
    [schema.JOURNAL, schema.NOTIFICATIONS, schema.QUARANTINE, schema.GAPS, schema.STATISTICS, schema.DECODED],
)
def test_every_schema_can_be_said_to_spark(table: pa.Schema) -> None:
    assert len(schema.ddl(table).split(", ")) == len(table)


def test_spark_names_are_quoted() -> None:
    assert schema.ddl(pa.schema([pa.field("offset", pa.int64())])) == "`offset` BIGINT"


def test_decoded_rows_hold_every_column_of_both_tables() -> None:
    assert set(schema.DECODED.names) == {*schema.NOTIFICATIONS.names, *schema.QUARANTINE.names}


def test_segments_are_listed_by_recorder_and_offset(tmp_path: Path) -> None:
    for recorder, first in (("b", 0), ("a", 20), ("a", 3), ("a-b", 1)):
        (tmp_path / schema.segment_name(recorder, first)).touch()
    assert [path.name for _, path in schema.segments(tmp_path)] == [
        "segment-a-0000000000000003.parquet",
        "segment-a-0000000000000020.parquet",
        "segment-a-b-0000000000000001.parquet",
        "segment-b-0000000000000000.parquet",
    ]


def test_segments_of_one_recorder_leave_out_those_whose_name_begins_alike(tmp_path: Path) -> None:
    for recorder in ("a", "a-1"):
        (tmp_path / schema.segment_name(recorder, 5)).touch()
    assert [first for first, _ in schema.segments(tmp_path, "a")] == [5]


def test_unfinished_and_foreign_files_are_no_segments(tmp_path: Path) -> None:
    for name in (".segment-a-0000000000000003.parquet.tmp", "segment-a.parquet", "notes.txt"):
        (tmp_path / name).touch()
    assert schema.segments(tmp_path) == []


def test_a_missing_journal_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"no journal at .*absent"):
        schema.segments(tmp_path / "absent")


def test_a_blob_stands_in_the_folder_of_its_first_two_digits(tmp_path: Path) -> None:
    assert schema.blob_path(tmp_path, "ab" * 32) == tmp_path / "blobs" / "ab" / ("ab" * 32)


@pytest.mark.parametrize(
    "reference", ["", "../../etc/passwd", "ab" * 31, "AB" * 32, "ab" * 32 + "\n", "ab/" * 21 + "a"]
)
def test_a_reference_that_is_no_digest_leads_nowhere(tmp_path: Path, reference: str) -> None:
    with pytest.raises(JournalError, match="not a SHA-256"):
        schema.blob_path(tmp_path, reference)
