"""Rows: what a recorder has taken and not written yet, as columns.

What came together shares its publisher, name, epoch, key and time of arrival: that is kept once for each run
of rows and repeated by Arrow, so that a burst costs a few list operations and no object for each row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrow import pa
from ..schema import JOURNAL

if TYPE_CHECKING:
    from ...agents import Burst
    from ...agents.notification import Notification

_OVERHEAD = 200
_INT64 = 1 << 63


class _Run(NamedTuple):
    """What some rows in succession share."""

    received_us: int
    publisher: str
    name: str
    epoch: int
    key_id: str | None


class Rows:
    """Rows that wait, oldest first; its length counts them. Not thread-safe.

    Attributes:
        bytes: about what they take in memory.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._frames: tuple[list[Any], list[Any], list[Any], list[Any], list[Any]] = ([], [], [], [], [])
        self._topics: list[str] = []
        self._sequences: list[int] = []
        self._sent: list[int] = []
        self._runs: list[_Run] = []
        self._counts: list[int] = []

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def contents(self) -> list[Any]:
        """Frame 2 of each."""
        return self._frames[2]

    def append(self, row: Notification) -> None:
        """Take a raw notification; everything that could make a whole segment fail later is refused here.

        Raises:
            TypeError, ValueError, OverflowError, AttributeError: saying what cannot be stored.
        """
        frames = [bytes(frame) for frame in row.frames]
        header, _, content, _, signature = frames
        for text in (row.publisher, row.name, row.topic, row.key_id):
            text.encode()
        if not (-_INT64 <= row.epoch < _INT64 and -_INT64 <= row.sequence < _INT64):
            raise ValueError(f"epoch {row.epoch} or sequence {row.sequence} exceeds 64 bits")
        sent = _microseconds(row.sent_at)
        run = _Run(_microseconds(row.received_at), row.publisher, row.name, row.epoch, row.key_id or None)
        for column, frame in zip(self._frames, frames, strict=True):
            column.append(frame)
        self._topics.append(row.topic)
        self._sequences.append(row.sequence)
        self._sent.append(sent)
        self._add_run(run, 1)
        self.bytes += len(header) + len(content) + len(signature) + _OVERHEAD

    def extend(self, burst: Burst) -> None:
        """Take a burst, whose parts were judged when it came."""
        rows, bodies = burst.rows, burst.bodies
        headers, names, contents, msgids, signatures = self._frames
        headers += burst.headers
        names += [row.serializer for row in rows]
        contents += bodies
        msgids += [row.msgid for row in rows]
        signatures += [row.signature for row in rows]
        self._topics += burst.topics
        self._sequences += [row.number for row in rows]
        self._sent += [row.sent_ms * 1000 for row in rows]
        name = burst.name.encode(errors="replace").decode()
        received = _microseconds(burst.received_at)
        self._add_run(_Run(received, burst.publisher, name, burst.epoch, burst.key_id or None), len(rows))
        self.bytes += sum(map(len, bodies)) + sum(map(len, burst.headers)) + (_OVERHEAD + 40) * len(rows)

    def join(self, later: Rows) -> None:
        """Take all rows of another, which came later."""
        for column, more in zip(self._frames, later._frames, strict=True):
            column += more
        self._topics += later._topics
        self._sequences += later._sequences
        self._sent += later._sent
        self._runs += later._runs
        self._counts += later._counts
        self.bytes += later.bytes

    def table(
        self,
        recorder: str,
        first: int | None = None,
        contents: list[Any] | None = None,
        refs: Iterable[str | None] | None = None,
    ) -> pa.Table:
        """All rows as a table of `schema.JOURNAL`.

        Args:
            recorder: its name.
            first: offset of the first row; None gives each row the offset of its sequence number.
            contents: in the place of frame 2; default that.
            refs: for the column ``content_ref``; default none.
        """
        count = len(self)
        if not count:
            return JOURNAL.empty_table()
        at = np.repeat(np.arange(len(self._runs)), self._counts)
        received, publisher, name, epoch, key_id = zip(*self._runs, strict=True)
        header, serializer, _, msgid, signature = self._frames
        found: dict[str, Any] = {
            "header": header, "serializer": serializer, "msgid": msgid, "signature": signature,
            "content": self.contents if contents is None else contents,
            "topic": self._topics, "sequence": self._sequences, "sent_at": self._sent,
            "content_ref": [None] * count if refs is None else list(refs),
            "offset": self._sequences if first is None else np.arange(first, first + count),
            "recorder": pa.repeat(pa.scalar(recorder, pa.string()), count),
        }  # fmt: skip
        shared = {
            "received_at": received, "publisher": publisher, "name": name, "epoch": epoch, "key_id": key_id,
        }  # fmt: skip
        arrays = [
            pa.array(shared[field.name], field.type).take(pa.array(at))
            if field.name in shared
            else _array(found[field.name], field.type)
            for field in JOURNAL
        ]
        return pa.Table.from_arrays(arrays, schema=JOURNAL)

    def _add_run(self, run: _Run, count: int) -> None:
        if self._runs and self._runs[-1] == run:
            self._counts[-1] += count
        else:
            self._runs.append(run)
            self._counts.append(count)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _microseconds(seconds: float) -> int:
    value = round(seconds * 1e6)
    if not -_INT64 <= value < _INT64:
        raise ValueError(f"time {seconds} s exceeds the range of microseconds")
    return value
