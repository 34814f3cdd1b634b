"""What a journal looks like: names of its files, columns of its rows and of every table.

Each schema is a pyarrow schema; `ddl` says the same to Spark. Times are UTC microseconds. Columns
of the notifications table come from the verified frames; only ``recorder, offset, received_at,
name, content_ref`` are what the recorder wrote. So an edited journal cannot move a value to another
agent or topic.

Values stand in the first column that fits: ``value_bool``, ``value_long`` (64-bit integers),
``value_double``, ``value_string``, else ``value_json``. None is the JSON text ``null``. In
``value_json`` floats are written with ``repr`` and read back identically; not-a-number is ``NaN``,
which DuckDB and Spark's ``from_json`` read.

An array of up to `LIST_NUMBERS` numbers stands in ``value_list`` in C order, beside ``dtype`` and ``shape``.
Whole numbers beyond 2**53 lose their last digits there. Of a larger array only figures are in the tables.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..protocol.errors import JournalError
from . import missing

try:
    import pyarrow as pa
except ImportError as exc:
    raise missing("pyarrow") from exc

TIMESTAMP = pa.timestamp("us", tz="UTC")

LAST_TIME = 253_402_300_799_999_999
"""The end of the year 9999, µs since 1970; no calendar of Python, SQL or pandas goes on behind it."""

FORM_KEY = b"pzc.journal"
"""Where a segment tells its form."""

JOURNAL_FORM = 1

FRAMES = ("header", "serializer", "content", "msgid", "signature")
"""Names of the columns that hold frames 0 to 4."""

LIST_NUMBERS = 8192
"""Numbers of an array that stand in a row at most: 64 KiB."""

_SEGMENT = re.compile(r"segment-(?P<recorder>.+?)-(?P<offset>\d+)(?:\.to-(?P<last>\d+))?\.parquet")
_DIGEST = re.compile(r"[0-9a-f]{64}")

_ORIGIN = [
    pa.field("recorder", pa.string()),
    pa.field("offset", pa.int64()),
    pa.field("received_at", TIMESTAMP),
]
_FRAME_FIELDS = [pa.field(name, pa.binary()) for name in FRAMES]

JOURNAL = pa.schema(
    [
        *_FRAME_FIELDS,
        *_ORIGIN,
        pa.field("publisher", pa.string()),
        pa.field("name", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("sequence", pa.int64()),
        pa.field("sent_at", TIMESTAMP),
        pa.field("key_id", pa.string()),
        pa.field("content_ref", pa.string()),
    ],
    metadata={FORM_KEY: str(JOURNAL_FORM)},
)
"""One row per notification as recorded. ``content_ref`` is the SHA-256 (hex) of a content that is
kept under ``blobs/`` and whose ``content`` column is empty; else null."""

NOTIFICATIONS = pa.schema(
    [
        *_ORIGIN,
        pa.field("publisher", pa.string()),
        pa.field("name", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("key", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("sequence", pa.int64()),
        pa.field("message_id", pa.string()),
        pa.field("sent_at", TIMESTAMP),
        pa.field("dialect", pa.string()),
        pa.field("key_id", pa.string()),
        pa.field("user", pa.string()),
        pa.field("value_double", pa.float64()),
        pa.field("value_long", pa.int64()),
        pa.field("value_bool", pa.bool_()),
        pa.field("value_string", pa.string()),
        pa.field("value_json", pa.string()),
        pa.field("value_list", pa.list_(pa.float64())),
        pa.field("dtype", pa.string()),
        pa.field("shape", pa.list_(pa.int64())),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        pa.field("mean", pa.float64()),
        pa.field("std", pa.float64()),
        pa.field("digest", pa.string()),
        pa.field("content_ref", pa.string()),
    ]
)
"""One row per verified notification. ``sequence`` and ``sent_at`` are null for PZC00, which has
neither; ``key`` is what the notification is about within its topic, null when it has none;
``key_id`` and ``user`` (name of that key) are null when unsigned. ``digest`` is the SHA-256 (hex) of the
array's bytes in C order; ``std`` is the population's."""

QUARANTINE = pa.schema(
    [
        *_ORIGIN,
        pa.field("publisher", pa.string()),
        pa.field("name", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("sequence", pa.int64()),
        pa.field("error", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("content_ref", pa.string()),
        *_FRAME_FIELDS,
    ]
)
"""One row per journal row that failed: what the journal claims about it, the error's class, the
reason, and the frames as recorded, so that it can be judged again."""

GAPS = pa.schema(
    [
        pa.field("publisher", pa.string()),
        pa.field("name", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("first_missing", pa.int64()),
        pa.field("last_missing", pa.int64()),
        pa.field("count", pa.int64()),
    ]
)
"""One row per range of sequence numbers that is absent from the notifications table."""

STATISTICS = pa.schema(
    [
        pa.field("publisher", pa.string()),
        pa.field("name", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("epochs", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("missing", pa.int64()),
        pa.field("late", pa.int64()),
        pa.field("duplicates", pa.int64()),
        pa.field("first_sent", TIMESTAMP),
        pa.field("last_sent", TIMESTAMP),
        pa.field("rate_hz", pa.float64()),
        pa.field("age_min_ms", pa.float64()),
        pa.field("age_mean_ms", pa.float64()),
        pa.field("age_max_ms", pa.float64()),
        pa.field("age_p99_ms", pa.float64()),
        pa.field("values", pa.int64()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        pa.field("mean", pa.float64()),
        pa.field("std", pa.float64()),
    ]
)
"""One row per publisher and topic. ``values`` counts the numbers behind min, max, mean and
(population) std; NaN is not one. Age is received minus sent, in milliseconds. ``late`` counts what came
behind a greater sequence number, ``duplicates`` the copies that were left out.
``age_p99_ms`` is within 1 %."""

RESTARTS = pa.schema(
    [
        pa.field("publisher", pa.string()),
        pa.field("name", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("epoch_before", pa.int64()),
        pa.field("received_at", TIMESTAMP),
    ]
)
"""One row per epoch of a publisher behind its first one, with the time by which it was received."""

WINDOWS = pa.schema(
    [
        pa.field("publisher", pa.string()),
        pa.field("name", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("window_start", TIMESTAMP),
        pa.field("window_end", TIMESTAMP),
        pa.field("count", pa.int64()),
        pa.field("rate_hz", pa.float64()),
        pa.field("age_min_ms", pa.float64()),
        pa.field("age_mean_ms", pa.float64()),
        pa.field("age_max_ms", pa.float64()),
        pa.field("age_p99_ms", pa.float64()),
        pa.field("values", pa.int64()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        pa.field("mean", pa.float64()),
        pa.field("std", pa.float64()),
        pa.field("p50", pa.float64()),
        pa.field("p90", pa.float64()),
        pa.field("p99", pa.float64()),
    ]
)
"""One row per publisher, topic and window of the time of sending. ``rate_hz`` is the count by the window's
width; percentiles are within 1 %; the rest as in `STATISTICS`."""

DAMAGED = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("read", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("found_at", TIMESTAMP),
    ]
)
"""One row per segment that could not be read as a whole: the rows that its end tells (null without one),
those that were read all the same, and why."""

ALARMS = pa.schema(
    [
        pa.field("rule", pa.string()),
        pa.field("severity", pa.string()),
        pa.field("message", pa.string()),
        pa.field("received_at", TIMESTAMP),
        pa.field("publisher", pa.string()),
        pa.field("name", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("key", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("sequence", pa.int64()),
        pa.field("message_id", pa.string()),
        pa.field("sent_at", TIMESTAMP),
        pa.field("value", pa.float64()),
    ]
)
"""One row per notification and limit that it violates; ``value`` is what the limit shows of it."""

TABLES = {
    "notifications": NOTIFICATIONS,
    "quarantine": QUARANTINE,
    "alarms": ALARMS,
    "gaps": GAPS,
    "statistics": STATISTICS,
    "windows": WINDOWS,
    "restarts": RESTARTS,
    "damaged": DAMAGED,
}
"""All tables by name, as their files have them; `folders` has the columns that stand in folder names."""

_DAY = (pa.field("date", pa.date32()),)
_DAY_AND_AGENT = (*_DAY, pa.field("agent", pa.string()))
_FOLDERS = {
    **dict.fromkeys(("notifications", "quarantine", "alarms"), _DAY_AND_AGENT),
    "windows": _DAY,
}

DECODED = pa.schema(
    [
        *NOTIFICATIONS,
        pa.field("error", pa.string()),
        pa.field("reason", pa.string()),
        *_FRAME_FIELDS,
    ]
)
"""What the decoder yields: notifications (``error`` null) and quarantined rows in one stream."""

_SQL = {
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    TIMESTAMP: "TIMESTAMP",
    pa.date32(): "DATE",
    pa.list_(pa.int64()): "ARRAY<BIGINT>",
    pa.list_(pa.float64()): "ARRAY<DOUBLE>",
}


def folders(table: str) -> pa.Schema:
    """Columns of a table that its folders are called after, from the outermost."""
    return pa.schema(_FOLDERS.get(table, ()))


def stored(table: str) -> pa.Schema:
    """All columns of a table, those of its folders last."""
    return pa.unify_schemas([TABLES[table], folders(table)])


def ddl(schema: pa.Schema) -> str:
    """The schema as Spark DDL, for ``read.schema``, ``mapInArrow`` and ``StructType.fromDDL``."""
    return ", ".join(f"`{field.name}` {_SQL[field.type]}" for field in schema)


def segment_name(recorder: str, first: int) -> str:
    """File name of the segment that starts at offset ``first``."""
    return f"segment-{recorder}-{first:016d}.parquet"


def compacted_name(recorder: str, first: int, last: int) -> str:
    """File name of the segment that stands for all segments with the offsets ``first`` to ``last``."""
    return f"segment-{recorder}-{first:016d}.to-{last:016d}.parquet"


def segments(directory: str | Path, recorder: str | None = None) -> list[tuple[int, Path]]:
    """Finished segments with their first offsets, of one recorder or of all, by recorder and offset.

    Those that a compacted one stands for are left out: each row is in one of them.

    Raises:
        JournalError: when the directory cannot be listed.
    """
    return [(first, path) for first, path, covered in all_segments(directory, recorder) if not covered]


def all_segments(directory: str | Path, recorder: str | None = None) -> list[tuple[int, Path, bool]]:
    """As `segments`, with those that are covered by a compacted one, and whether that is so."""
    found: list[tuple[str, int, int, Path]] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                match = _SEGMENT.fullmatch(entry.name)
                if match and recorder in (None, match["recorder"]) and _is_file(entry):
                    last = -1 if match["last"] is None else int(match["last"])
                    found.append((match["recorder"], int(match["offset"]), -last, Path(entry.path)))
    except OSError as exc:
        raise JournalError(f"no journal at {directory}: {exc.strerror}") from exc
    told: list[tuple[int, Path, bool]] = []
    upto = "", -1
    for name, first, last, path in sorted(found):
        covered = name == upto[0] and first <= upto[1]
        told.append((first, path, covered))
        if not covered:
            upto = name, max(-last, -1 if name != upto[0] else upto[1])
    return told


def _is_file(entry: os.DirEntry[str]) -> bool:
    """False for what cannot be read as a file, or whose reader would wait for ever."""
    try:
        return entry.is_file()
    except OSError:
        return False


def segment_recorder(path: Path) -> str:
    """Name of the recorder that wrote a segment of `segments`."""
    return segment_span(path)[0]


def segment_span(path: Path) -> tuple[str, int, int | None]:
    """Recorder, first and, of a compacted one, last offset that the name of a segment tells."""
    match = _SEGMENT.fullmatch(path.name)
    if match is None:
        return "", 0, None
    return match["recorder"], int(match["offset"]), None if match["last"] is None else int(match["last"])


def blob_path(directory: str | Path, digest: str) -> Path:
    """Where a content is kept; ``digest`` is its SHA-256 in hex, the ``content_ref`` of its row.

    Raises:
        JournalError: when ``digest`` is not one, so that no edited row can point elsewhere.
    """
    if not _DIGEST.fullmatch(digest):
        raise JournalError(f"content_ref {digest[:80]!r} is not a SHA-256 in hex")
    return Path(directory) / "blobs" / digest[:2] / digest
