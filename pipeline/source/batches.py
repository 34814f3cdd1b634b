"""Batches: notifications as rows of `schema.JOURNAL`, and as the bytes that go to a worker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...protocol.notification import Notification
from .. import missing
from ..schema import FRAMES, JOURNAL, TIMESTAMP

try:
    import pyarrow as pa
except ImportError as exc:
    raise missing("pyarrow") from exc


def to_batch(notifications: Sequence[Notification], mailbox: str) -> pa.RecordBatch:
    """Rows in the order of the notifications.

    ``recorder`` is the name of the mailbox and ``offset`` the number within the topic, so a row that is read
    again is the same but for ``received_at``, should another process have received it.
    """
    count = len(notifications)
    frames = zip(*(each.frames for each in notifications), strict=True) if count else ((),) * len(FRAMES)
    sequences = pa.array([each.sequence for each in notifications], pa.int64())
    columns = [
        *(pa.array(column, pa.binary()) for column in frames),
        pa.array([mailbox] * count, pa.string()),
        sequences,
        _times([each.received_at for each in notifications]),
        pa.array([each.publisher for each in notifications], pa.string()),
        pa.array([each.name for each in notifications], pa.string()),
        pa.array([each.epoch for each in notifications], pa.int64()),
        pa.array([each.topic for each in notifications], pa.string()),
        sequences,
        _times([each.sent_at for each in notifications]),
        pa.array([each.key_id or None for each in notifications], pa.string()),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=JOURNAL)


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """As an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.RecordBatch:
    """What `to_bytes` made.

    Raises:
        pyarrow.ArrowInvalid: for anything else.
    """
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def _times(seconds: list[float]) -> pa.Array:
    return pa.array(np.rint(np.array(seconds) * 1e6).astype("datetime64[us]"), TIMESTAMP)
