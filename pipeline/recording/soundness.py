"""Rows of a segment that a recorder can have written: text that is text, an offset, a time of a calendar."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrow import pa
from ..schema import LAST_TIME

_NEEDED = ("recorder", "offset", "received_at")


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch (`schema.JOURNAL`, or some of its columns) that are sound, mostly all."""
    keep = np.ones(len(batch), np.bool_)
    for field in batch.schema:
        column = batch.column(field.name)
        if field.name in _NEEDED and column.null_count:
            keep &= column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_string(field.type):
            keep &= _are_text(column)
        elif field.name == "offset":
            keep &= _numbers(column) >= 0
        elif field.name == "received_at":
            times = _numbers(column)
            keep &= (times >= 0) & (times <= LAST_TIME)
    return batch if keep.all() else batch.filter(pa.array(keep))


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    return column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


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
