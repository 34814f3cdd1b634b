"""Readers: what Spark calls. The streaming one lives in one driver-side process for the whole query.

::

    Spark calls               in                    then
    __init__                  three processes       nothing is opened
    initialOffset             the query's process   mailboxes opened; the beginning
    latestOffset              the query's process   mailboxes opened; how far the rows go that are here
    partitions                the query's process   waits until all rows of the batch are here (again)
    read                      workers               rows of their spans, asked for at the query's process
    commit                    the query's process   rows released, and acknowledged to their publishers
    stop, or its parent ends  the query's process   everything given back, mailboxes kept
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...agents.proxy import Proxy
from .. import missing
from ..decoding.decode import Decoder
from .batches import from_bytes, to_table
from .offsets import Offset, Span, read_offset
from .options import Options
from .parent import ParentWatch
from .receiver import Receiver, Words, to_words

try:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as exc:
    raise missing("pyspark") from exc

FIRST_ROW = 0.1
"""Seconds that a query without news waits for some, instead of asking again at once."""

MEMORY_ROWS = 10_000
"""Rows of a batch query that go to Spark together."""


@dataclass
class RowsPartition(InputPartition):
    """The rows of one task, and where they are asked for."""

    endpoint: str
    spans: list[Span]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query; see the table in the module's docstring."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._mailbox = options.name or ""
        self._receiver: Receiver | None = None
        self._watch: ParentWatch | None = None
        self._before: int | None = None

    def __getstate__(self) -> dict[str, Options]:
        return {"options": self._options}

    def __setstate__(self, state: dict[str, Options]) -> None:
        StreamReader.__init__(self, state["options"])

    def _opened(self) -> Receiver:
        if self._receiver is None:
            self._receiver = Receiver(self._options)
            self._watch = ParentWatch(self._receiver.close)
        return self._receiver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802, D102
        self._opened().begin(Offset(self._mailbox))
        return Offset(self._mailbox).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, D102
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, D102
        receiver = self._opened()
        receiver.settle(self._options.timeout)
        self._before = receiver.arrived

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, D102
        begin = read_offset(start, self._mailbox)
        receiver = self._opened()
        receiver.begin(begin)
        wait = FIRST_ROW
        if self._before is not None:
            # This trigger asks only after a commit; of its last one nobody else tells in time.
            receiver.release(begin)
            wait = 0.0
        end = receiver.latest(begin, self._rows(limit), self._before, wait)
        if end is begin and self._before is not None:
            receiver.settle(self._options.timeout)  # the process may be ended before it has acknowledged
        return start if end is begin else end.to_json()

    def _rows(self, limit: ReadLimit) -> int | None:
        if isinstance(limit, ReadAllAvailable):
            return None
        return limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802, D102
        receiver = self._receiver
        if receiver is None:
            return None
        return {**receiver.last().to_json(), "endpoint": receiver.endpoint, "status": receiver.status()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RowsPartition]:  # noqa: D102
        begin = read_offset(start, self._mailbox)
        receiver = self._opened()
        receiver.begin(begin)
        parts = receiver.plan(begin, read_offset(end, self._mailbox))
        return [RowsPartition(receiver.endpoint, part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: D102
        assert isinstance(partition, RowsPartition)
        return decoded(self._options, read_spans(self._options, partition.endpoint, partition.spans))

    def commit(self, end: dict[str, Any]) -> None:  # noqa: D102
        self._opened().release(read_offset(end, self._mailbox))

    def stop(self) -> None:  # noqa: D102
        if self._watch is not None:
            self._watch.close()
        if self._receiver is not None:
            self._receiver.close()


class BatchReader(DataSourceReader):
    """One batch query: a look at what the mailboxes hold; nothing is acknowledged."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:  # noqa: D102
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: D102
        del partition
        return decoded(self._options, look(self._options))


def read_spans(options: Options, endpoint: str, spans: list[Span]) -> Iterator[pa.RecordBatch]:
    """The rows of some spans, asked for at the process of a query, page by page.

    Raises:
        RowsMissing: when they are not held any more.
        CallTimeout, PeerLost, SignatureError: when it cannot be asked.
    """
    left: list[Words] = [to_words(span) for span in spans]
    protocol = options.protocol(serializer="msgpack")
    with Proxy(endpoint, timeout=options.timeout, protocol=protocol) as receiver:
        while left:
            rows, left = receiver.page(left)
            yield from from_bytes(rows).to_batches()


def look(options: Options) -> Iterator[pa.RecordBatch]:
    """What the mailboxes hold and what comes within ``wait`` seconds, at most ``maxRowsPerBatch`` rows."""
    receiver = Receiver(options, serve=False)
    try:
        nothing = Offset(options.name or "")
        receiver.begin(nothing)
        if options.name is not None:
            receiver.settle(options.timeout)
        deadline = time.monotonic() + options.wait
        pause = threading.Event()
        while receiver.arrived < options.max_rows and (left := deadline - time.monotonic()) > 0:
            pause.wait(min(left, FIRST_ROW))
        rows = receiver.held(options.max_rows)
    finally:
        receiver.close()
    for first in range(0, len(rows), MEMORY_ROWS):
        yield from to_table(rows[first : first + MEMORY_ROWS], options.name or "").to_batches()


def decoded(options: Options, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Verified and decoded when the options want that, else as they are."""
    return Decoder(options.protocol().codec.keyring, None, None)(batches) if options.decode else batches
