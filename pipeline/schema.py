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
Of a content that holds arrays, each stands in ``arrays``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from ..protocol.errors import JournalError
from .arrow import pa

TIMESTAMP = pa.timestamp("us", tz="UTC")

LAST_TIME = 253_402_300_799_999_999
"""The end of the year 9999, µs since 1970; no calendar of Python, SQL or pandas goes on behind it."""

DAY = 86_400_000_000
"""In µs."""

FORM_KEY = b"pzc.journal"
"""Where a segment tells its form."""

JOURNAL_FORM = 1
"""What a newer version of this package has written in another form is refused by name."""

FRAMES = ("header", "serializer", "content", "msgid", "signature")
"""Names of the columns that hold frames 0 to 4."""

LIST_NUMBERS = 8192
"""Numbers of an array that stand in a row at most: 64 KiB."""

ROW_NUMBERS = 8 * LIST_NUMBERS
"""Numbers of all arrays of a row, but for the first one, that stand in it at most."""

_SEGMENT = re.compile(r"segment-(?P<recorder>.+?)-(?P<offset>\d+)(?:\.to-(?P<last>\d+))?\.parquet")
_DIGEST = re.compile(r"[0-9a-f]{64}")

_TEXT, _LONG, _REAL, _BYTES = pa.string(), pa.int64(), pa.float64(), pa.binary()
_ORIGIN = {"recorder": _TEXT, "offset": _LONG, "received_at": TIMESTAMP}
_FRAMES = dict.fromkeys(FRAMES, _BYTES)
_TOPIC = {"publisher": _TEXT, "name": _TEXT, "topic": _TEXT}
_NUMBER = {"epoch": _LONG, "sequence": _LONG}
_AGES = dict.fromkeys(("age_min_ms", "age_mean_ms", "age_max_ms", "age_p99_ms"), _REAL)
_SUMMARY = dict.fromkeys(("min", "max", "mean", "std"), _REAL)
_FIGURES = {"rate_hz": _REAL, **_AGES, "values": _LONG, **_SUMMARY}
_REFUSED = {"error": _TEXT, "reason": _TEXT}


_ARRAY = pa.struct(
    {"path": _TEXT, "dtype": _TEXT, "shape": pa.list_(_LONG), "values": pa.list_(_REAL), "digest": _TEXT}
)


def _schema(columns: Mapping[str, pa.DataType], metadata: dict[bytes, str] | None = None) -> pa.Schema:
    return pa.schema(list(columns.items()), metadata=metadata)


JOURNAL = _schema(
    {
        **_FRAMES, **_ORIGIN, "publisher": _TEXT, "name": _TEXT, "epoch": _LONG, "topic": _TEXT,
        "sequence": _LONG, "sent_at": TIMESTAMP, "key_id": _TEXT, "content_ref": _TEXT,
    },
    {FORM_KEY: str(JOURNAL_FORM)},
)  # fmt: skip
"""One row per notification as recorded. ``content_ref`` is the SHA-256 (hex) of a content that is
kept under ``blobs/`` and whose ``content`` column is empty; else null."""

NOTIFICATIONS = _schema({
    **_ORIGIN, **_TOPIC, "key": _TEXT, **_NUMBER, "message_id": _TEXT, "sent_at": TIMESTAMP, "dialect": _TEXT,
    "key_id": _TEXT, "user": _TEXT, "value_double": _REAL, "value_long": _LONG, "value_bool": pa.bool_(),
    "value_string": _TEXT, "value_json": _TEXT, "value_list": pa.list_(_REAL), "dtype": _TEXT,
    "shape": pa.list_(_LONG), **_SUMMARY, "digest": _TEXT, "arrays": pa.list_(_ARRAY), "content_ref": _TEXT,
})  # fmt: skip
"""One row per verified notification. ``sequence`` and ``sent_at`` are null for PZC00, which has
neither; ``key`` is what the notification is about within its topic, null when it has none;
``key_id`` and ``user`` (name of that key) are null when unsigned. ``digest`` is the SHA-256 (hex) of the
array's bytes in C order; ``std`` is the population's. ``arrays`` has each array of a content that holds
some, by its path (see `decoding.arrays`); ``value_list`` and the columns beside it are of the first one."""

QUARANTINE = _schema({**_ORIGIN, **_TOPIC, **_NUMBER, **_REFUSED, "content_ref": _TEXT, **_FRAMES})
"""One row per journal row that failed: what the journal claims about it, the error's class, the
reason, and the frames as recorded, so that it can be judged again."""

GAPS = _schema({**_TOPIC, "epoch": _LONG, "first_missing": _LONG, "last_missing": _LONG, "count": _LONG})
"""One row per range of sequence numbers that is absent from the notifications table."""

STATISTICS = _schema({
    **_TOPIC, "epochs": _LONG, "count": _LONG, "missing": _LONG, "late": _LONG, "duplicates": _LONG,
    "first_sent": TIMESTAMP, "last_sent": TIMESTAMP, **_FIGURES,
})  # fmt: skip
"""One row per publisher and topic. ``values`` counts the numbers behind min, max, mean and
(population) std; NaN is not one. Age is received minus sent, in milliseconds. ``late`` counts what came
behind a greater sequence number, ``duplicates`` the copies that were left out.
``age_p99_ms`` is within 1 %."""

RESTARTS = _schema(
    {"publisher": _TEXT, "name": _TEXT, "epoch": _LONG, "epoch_before": _LONG, "received_at": TIMESTAMP}
)
"""One row per start of an agent, by its name, behind its first one, with the time by which it was received.
Each start is a publisher and an epoch of its own."""

DAMAGED = _schema({"file": _TEXT, "rows": _LONG, "read": _LONG, "reason": _TEXT, "found_at": TIMESTAMP})
"""One row per segment that could not be read as a whole: the rows that its end tells (null without one),
those that were read all the same, and why."""

ALARMS = _schema({
    "rule": _TEXT, "severity": _TEXT, "message": _TEXT, "received_at": TIMESTAMP, **_TOPIC, "key": _TEXT,
    **_NUMBER, "message_id": _TEXT, "sent_at": TIMESTAMP, "value": _REAL,
})  # fmt: skip
"""One row per notification and limit that it violates; ``value`` is what the limit shows of it."""

TABLES = {
    "notifications": NOTIFICATIONS,
    "quarantine": QUARANTINE,
    "alarms": ALARMS,
    "gaps": GAPS,
    "statistics": STATISTICS,
    "restarts": RESTARTS,
    "damaged": DAMAGED,
}
"""All tables by name, as their files have them; `folders` has the columns that stand in folder names."""

_DAY_AND_AGENT = pa.schema([("date", pa.date32()), ("agent", _TEXT)])
_FOLDERS: dict[str, pa.Schema] = dict.fromkeys(("notifications", "quarantine", "alarms"), _DAY_AND_AGENT)

DECODED = pa.schema([*NOTIFICATIONS, *_schema({**_REFUSED, **_FRAMES})])
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
    pa.list_(_ARRAY): (
        "ARRAY<STRUCT<path: STRING,dtype: STRING,shape: ARRAY<BIGINT>,values: ARRAY<DOUBLE>,digest: STRING>>"
    ),
}


def folders(table: str) -> pa.Schema:
    """Columns of a table that its folders are called after, from the outermost."""
    return _FOLDERS.get(table, pa.schema([]))


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
    return told_by(entries_of(directory), recorder)


def entries_of(directory: str | Path) -> Iterator[os.DirEntry[str]]:
    """What is in the folder of a journal; JournalError when it cannot be listed."""
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError as exc:
        raise JournalError(f"no journal at {directory}: {exc.strerror}") from exc


def told_by(entries: Iterable[os.DirEntry[str]], recorder: str | None = None) -> list[tuple[int, Path, bool]]:
    """As `all_segments`, of those among some entries of the folder."""
    found: list[tuple[str, int, int, Path]] = []
    for entry in entries:
        match = _SEGMENT.fullmatch(entry.name)
        if match and recorder in (None, match["recorder"]) and _is_file(entry):
            last = -1 if match["last"] is None else int(match["last"])
            found.append((match["recorder"], int(match["offset"]), -last, Path(entry.path)))
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


class _Form(msgspec.Struct):
    form: object = None


def check_form(path: Path, form: object, known: int) -> None:
    """Refuse a form that this version does not know.

    Args:
        path: of the file.
        form: as the file tells it.
        known: the newest one that can be read; all from 1 on can.

    Raises:
        JournalError: says what to do.
    """
    if isinstance(form, bool) or not isinstance(form, int) or not 1 <= form <= known:
        raise JournalError(
            f"{path} has form {form!r:.20}, and this version of pzc reads forms up to {known}: "
            "use the version that wrote it, or a newer one"
        )


def form_of(record: bytes) -> object:
    """The form that a MessagePack record tells; None without one. `msgspec.MsgspecError` for other bytes."""
    return msgspec.msgpack.decode(record, type=_Form).form
