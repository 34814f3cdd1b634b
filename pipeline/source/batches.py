"""Batches: notifications as rows of `schema.JOURNAL`, and as the bytes that go to a worker."""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.notification import Notification
from .. import missing
from ..recording.rows import Rows

try:
    import pyarrow as pa
except ImportError as exc:
    raise missing("pyarrow") from exc


def to_table(notifications: Iterable[Notification], mailbox: str) -> pa.Table:
    """Rows in the order of the notifications.

    ``recorder`` is the name of the mailbox and ``offset`` the number within the topic, so a row that is read
    again is the same but for ``received_at``, should another process have received it.
    """
    rows = Rows()
    for notification in notifications:
        rows.append(notification)
    return rows.table(mailbox)


def to_bytes(table: pa.Table) -> bytes:
    """As an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    """What `to_bytes` made.

    Raises:
        pyarrow.ArrowInvalid: for anything else.
    """
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
