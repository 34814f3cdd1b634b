"""The array of a row: out of its list of values, or out of the journal that the row is from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..protocol.errors import JournalError
from .arrow import pc
from .decoding.values import array_in, decoded, digest_of, read_blob
from .recording.reading import batches
from .schema import segments

_COLUMNS = ("recorder", "offset", "serializer", "content", "content_ref")


def array_of(row: Mapping[str, Any], journal: Path | None) -> np.ndarray:
    """See `snapshot.Tables.array`."""
    digest = row["digest"]
    if digest is None:
        raise JournalError(f"row {row['offset']} of {row['recorder']} has no array of numbers")
    if row["value_list"] is not None:
        listed = np.array(row["value_list"]).astype(row["dtype"]).reshape(row["shape"])
        if digest_of(listed) == digest:  # not so for whole numbers of many digits
            return listed
    if journal is None:
        raise JournalError("the array is in no journal: its row came out of a mailbox")
    found = _in_journal(journal, row["recorder"], row["offset"])
    if found is None or digest_of(found) != digest:
        raise JournalError(f"journal {journal} does not have the array of this row")
    return found


def _in_journal(journal: Path, recorder: str, offset: int) -> np.ndarray | None:
    known = segments(journal, recorder)
    at = bisect_right([first for first, _ in known], offset) - 1
    for batch in batches(known[at][1], _COLUMNS) if at >= 0 else ():
        for row in batch.filter(pc.equal(batch.column("offset"), offset)).to_pylist():
            ref = row["content_ref"]
            content = row["content"] if ref is None else read_blob(journal, ref)
            return array_in(decoded(row["serializer"].decode(), content))
    return None
