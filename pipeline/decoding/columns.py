"""Verified notifications as columns: what a line shares is repeated by Arrow, numbers are read as a matrix.

A content that is one double, packed by MessagePack or pickled, has one form but for eight bytes; many of
them are read at once. Every other content is decoded by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrow import pa
from ..schema import DECODED, NOTIFICATIONS
from .bulk import Line, Opened

Read = Callable[[str, bytes], Sequence[object]]
"""``read(serializer, content)`` gives the value columns of one content, or raises."""

KEPT = ("recorder", "offset", "received_at", "name", "content_ref")
"""Columns of a journal row that the recorder wrote and no frame tells."""

_VALUES = NOTIFICATIONS.names[NOTIFICATIONS.get_field_index("value_double") : -1]

# What stands before and behind the eight bytes of a double.
_PACKED = (b"\xcb", b"")
_PICKLED = tuple((bytes((0x80, n, 0x95, 10)) + bytes(7) + b"G", b".") for n in (4, 5))
_FORMS = {"msgpack": (_PACKED,), "pickle": _PICKLED}


def read(
    batch: pa.RecordBatch, contents: Sequence[bytes], opened: Opened, lines: Sequence[Line], read: Read
) -> tuple[pa.RecordBatch | None, Mapping[int, Exception]]:
    """Rows of `schema.DECODED` of opened notifications, and what is wrong with the contents of the others.

    Args:
        batch: journal rows.
        contents: frame 2 of each.
        opened: those that verified.
        lines: of `Bulk.lines`.
        read: for a content that is not one double.

    Returns:
        The rows whose contents could be read, None when there is none or Arrow cannot hold one of them;
        and the errors by row, in which case all rows that are in neither have to be judged one by one.
    """
    if not opened.rows:
        return None, {}
    places = np.array(opened.lines, np.int64)
    values, failed = _values([contents[row] for row in opened.rows], places, lines, read)
    wrong = {opened.rows[n]: exc for n, exc in failed.items()}
    keep = np.array([n for n in range(len(opened.rows)) if n not in failed], np.int64)
    if not len(keep):
        return None, wrong
    try:
        return _assembled(batch, opened, places, lines, values, keep), wrong
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        # Nobody is lost: each row is judged by itself, and the one that Arrow cannot hold is refused.
        opened.rows.clear()
        return None, {}


def _assembled(
    batch: pa.RecordBatch,
    opened: Opened,
    places: NDArray[np.int64],
    lines: Sequence[Line],
    values: Mapping[str, pa.Array],
    keep: NDArray[np.int64],
) -> pa.RecordBatch:
    whole = len(keep) == len(places)
    count, picked = len(keep), pa.array(keep)
    rows = pa.array(np.array(opened.rows, np.int64)[keep])
    line = pa.array(places[keep])
    source = batch if count == len(batch) else batch.take(rows)
    found: dict[str, Any] = {name: told.take(line) for name, told in _shared(lines).items()}
    if any(opened.keys):
        found["key"] = pa.array([key or None for key in opened.keys], pa.string()).take(picked)
    found["sequence"] = pa.array(np.array(opened.sequences, np.int64)[keep])
    found["sent_at"] = pa.array(np.array(opened.sent_ms, np.int64)[keep] * 1000)
    found["message_id"] = source.column("msgid").cast(pa.string())
    for name, column in values.items():
        found[name] = column if whole else column.take(picked)
    return assembled(source, found)


def assembled(batch: pa.RecordBatch, found: dict[str, Any]) -> pa.RecordBatch:
    """Rows of `schema.DECODED`: some columns, what the recorder wrote of journal rows, and nothing else."""
    told, nothing = {name: batch.column(name) for name in KEPT} | found, pa.nulls(len(batch))
    columns = [told.get(field.name, nothing).cast(field.type) for field in DECODED]
    return pa.RecordBatch.from_arrays(columns, schema=DECODED)


def _shared(lines: Sequence[Line]) -> dict[str, pa.Array]:
    envelopes = [line.envelope for line in lines]
    signers = [envelope.signer for envelope in envelopes]
    text = pa.string()
    return {
        "publisher": pa.array([envelope.sender for envelope in envelopes], text),
        "topic": pa.array([envelope.topic for envelope in envelopes], text),
        "epoch": pa.array([envelope.epoch for envelope in envelopes], pa.int64()),
        "dialect": pa.array([envelope.dialect for envelope in envelopes], text),
        "key_id": pa.array([signer.key_id if signer else None for signer in signers], text),
        "user": pa.array([signer.name if signer else None for signer in signers], text),
    }


def _values(
    contents: Sequence[bytes], places: NDArray[np.int64], lines: Sequence[Line], read: Read
) -> tuple[dict[str, pa.Array], dict[int, Exception]]:
    """Value columns of all contents, and the errors of those that cannot be read."""
    sizes = np.fromiter(map(len, contents), np.int64, len(contents))
    double, done = np.zeros(len(contents)), np.zeros(len(contents), np.bool_)
    names = [line.envelope.serializer for line in lines]
    for name, forms in _FORMS.items():
        own = np.array([other == name for other in names])[places]
        for before, behind in forms:
            rows = np.flatnonzero(own & ~done & (sizes == len(before) + 8 + len(behind)))
            if len(rows):
                _doubles(contents, rows, before, behind, double, done)
    rest = np.flatnonzero(~done).tolist()
    found: dict[str, pa.Array] = {name: pa.nulls(len(contents), DECODED.field(name).type) for name in _VALUES}
    if not rest:
        found["value_double"] = pa.array(double)
        return found, {}
    failed: dict[int, Exception] = {}
    told: list[Sequence[object] | None] = [None] * len(contents)
    for n in rest:
        try:
            told[n] = read(names[places[n]], contents[n])
        except Exception as exc:  # whatever is wrong with a content is its reason
            failed[n] = exc
    nothing = (None,) * len(_VALUES)
    for name, column in zip(_VALUES, zip(*(one or nothing for one in told), strict=True), strict=True):
        kind = DECODED.field(name).type
        if name == "value_double":
            column = [
                value if other else one
                for value, other, one in zip(double.tolist(), done, column, strict=True)
            ]
        if any(one is not None for one in column):
            found[name] = pa.array(column, kind)
    return found, failed


def _doubles(
    contents: Sequence[bytes],
    rows: NDArray[np.int64],
    before: bytes,
    behind: bytes,
    double: NDArray[np.float64],
    done: NDArray[np.bool_],
) -> None:
    """Read the contents of one size that are exactly a double of this form."""
    size, start = len(before) + 8 + len(behind), len(before)
    joined = (
        b"".join(contents) if len(rows) == len(contents) else b"".join(contents[n] for n in rows.tolist())
    )
    matrix = np.frombuffer(joined, np.uint8).reshape(len(rows), size)
    same = (matrix[:, :start] == np.frombuffer(before, np.uint8)).all(1)
    same &= (matrix[:, start + 8 :] == np.frombuffer(behind, np.uint8)).all(1)
    hit = rows[same]
    double[hit] = np.ascontiguousarray(matrix[same, start : start + 8]).view(">f8").ravel()
    done[hit] = True
