"""Readers: what Spark calls. The streaming one lives in one driver-side process for the whole query.

::

    Spark calls               in                    then
    __init__                  three processes       nothing is opened
    initialOffset             the query's process   the spool is opened; its first row that none has committed
    latestOffset              the query's process   the spool is opened; how far the rows go that are on disk
    partitions                the query's process   the segments that have the rows of the batch
    read                      workers               rows of their segments
    commit                    the query's process   segments removed whose rows were committed
    stop, or its parent ends  the query's process   everything given back, mailboxes kept

An offset is ``{"mailbox": name, "spool": name, "rows": n}``: the first n rows of that spool.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...protocol.errors import ConfigError, RowsMissing
from .. import missing
from ..arrow import pa
from ..decoding.decode import Decoder
from ..recording.reading import SegmentGone, batches, part
from ..schema import segments
from .mailboxes import look
from .options import Options
from .spool import Spool

try:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as exc:
    raise missing("pyspark") from exc

logger = logging.getLogger("pzc.source")

FIRST_ROW = 0.1
"""Seconds that a query without news waits for some, instead of asking again at once."""

CHECK = 0.5
"""Seconds between two looks at the parent."""

PATIENCE = 5.0
"""Seconds that giving everything back may take; then the process ends all the same."""

_LOOK = 0.01


class Piece(NamedTuple):
    """Rows of one segment, counted from 0: the first one, and the one behind the last one."""

    path: str
    first: int
    end: int


@dataclass
class RowsPartition(InputPartition):
    """The rows of one task."""

    pieces: list[Piece]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query; see the table in the module's docstring."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._spool: Spool | None = None
        self._watch: threading.Event | None = None
        self._before: int | None = None

    def __getstate__(self) -> dict[str, Options]:
        return {"options": self._options}

    def __setstate__(self, state: dict[str, Options]) -> None:
        StreamReader.__init__(self, state["options"])

    def _opened(self) -> Spool:
        if self._spool is None:
            options = self._options
            self._spool = Spool(options.spool, options, options.timeout)
            self._watch = end_with_parent(self._spool.close)
        self._spool.check()
        return self._spool

    def _offset(self, rows: int) -> dict[str, Any]:
        return {"mailbox": self._options.name, "spool": self._opened().name, "rows": rows}

    def _rows(self, offset: Mapping[str, Any]) -> int:
        """The rows of this spool before an offset.

        Raises:
            ConfigError: for what is no offset of this source, or one of another mailbox.
            RowsMissing: for one of another spool, when the option ``onMissing`` is ``fail``.
        """
        named, spool, rows = (offset.get(name) for name in ("mailbox", "spool", "rows"))
        if type(rows) is not int or rows < 0 or spool is None:
            raise ConfigError(f"the checkpoint holds no offset of the source pzc: {offset!r:.200}")
        if named != self._options.name:
            raise ConfigError(
                f"the checkpoint belongs to the mailbox {named!r}, and the query names "
                f"{self._options.name!r}: give it the old name, or a checkpoint of its own"
            )
        if not rows or spool == (held := self._opened().name):  # one without rows has no name to keep
            return rows
        self._miss(f"the checkpoint goes on in {spool}, and {self._options.spool} holds {held}")
        return 0

    def _miss(self, lost: str) -> None:
        if self._options.missing == "fail":
            raise RowsMissing(f"{lost}; set onMissing to report to go on without what is gone")
        logger.error("%s: what was in it and not committed is lost", lost)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802, D102
        return self._offset(self._opened().taken)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, D102
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, D102
        spool = self._opened()
        spool.settle(self._options.timeout)
        self._before = spool.end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, D102
        self.commit(start)  # asked only when that is so; nobody else tells of the last batch in time
        first = self._rows(start)
        end = self._end(first)
        if not isinstance(limit, ReadAllAvailable):
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
            end = min(end, first + most)
        return start if end <= first else self._offset(end)

    def _end(self, first: int) -> int:
        """Behind the last row that there is, or was at the beginning of the trigger."""
        if self._before is not None:
            return self._before
        spool, deadline, pause = self._opened(), time.monotonic() + FIRST_ROW, threading.Event()
        while spool.end <= first and time.monotonic() < deadline:
            pause.wait(_LOOK)
        return spool.end

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802, D102
        if self._spool is None:
            return None
        return {**self._offset(self._spool.end), "status": self._spool.status()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RowsPartition]:  # noqa: D102
        first, stop = self._rows(start), self._rows(end)
        spool = self._opened()
        pieces = list(_pieces(segments(spool.folder), first, stop, spool.end))
        if (there := sum(each.end - each.first for each in pieces)) < stop - first:
            self._miss(f"{stop - first - there} planned rows are not in {spool.folder} any more")
        return [RowsPartition(part) for part in _shared(pieces, self._options.partition_rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: D102
        assert isinstance(partition, RowsPartition)
        return decoded(self._options, read_pieces(partition.pieces))

    def commit(self, end: dict[str, Any]) -> None:  # noqa: D102
        rows, spool = self._rows(end), self._opened()
        spool.take(rows)

    def stop(self) -> None:  # noqa: D102
        if self._watch is not None:
            self._watch.set()
        if self._spool is not None:
            self._spool.close()


class BatchReader(DataSourceReader):
    """One batch query: a look at what the mailboxes hold; nothing is acknowledged."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:  # noqa: D102
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: D102
        del partition
        return decoded(self._options, look(self._options))


def _pieces(found: list[tuple[int, Path]], first: int, stop: int, end: int) -> Iterator[Piece]:
    """What the segments of a spool have of some rows; ``end`` is behind its last row."""
    ends = [*(begin for begin, _ in found), end][1:]
    for (begin, path), behind in zip(found, ends, strict=True):
        low, high = max(first, begin), min(stop, behind)
        if low < high:
            yield Piece(str(path), low - begin, high - begin)


def _shared(pieces: list[Piece], most: int) -> list[list[Piece]]:
    """Pieces in parts of at most so many rows."""
    parts: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        while piece.first < piece.end:
            if not room:
                parts.append([])
                room = most
            cut = min(piece.end, piece.first + room)
            parts[-1].append(piece._replace(end=cut))
            room -= cut - piece.first
            piece = piece._replace(first=cut)
    return parts


def read_pieces(pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
    """The rows of some pieces.

    Raises:
        RowsMissing: when a segment is not there.
        SegmentDamaged: when it cannot be read.
    """
    for piece in pieces:
        try:
            yield from part(batches(Path(piece.path)), piece.first, piece.end)
        except SegmentGone as exc:
            raise RowsMissing(f"{exc}; the option spool names a folder that every node reaches") from exc


def decoded(options: Options, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Verified and decoded when the options want that, else as they are."""
    return Decoder(options.protocol().codec.keyring, None)(found) if options.decode else found


def end_with_parent(give_back: Callable[[], object]) -> threading.Event:
    """End this process once its parent has ended: Spark does not tell a source that its query is over.

    Args:
        give_back: called before.

    Returns:
        What ends the watch when it is set.
    """
    parent, closed = os.getppid(), threading.Event()

    def watch() -> None:
        while not closed.wait(CHECK):
            if os.getppid() != parent:
                threading.Timer(PATIENCE, os._exit, (1,)).start()
                try:
                    give_back()
                finally:
                    os._exit(0)

    threading.Thread(target=watch, name="pzc-source parent", daemon=True).start()
    return closed
