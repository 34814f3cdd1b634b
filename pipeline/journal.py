"""Journal: what a recorder has durably written.

::

    <directory>/segment-<recorder>-<first offset>.parquet    finished, never changed
    <directory>/blobs/<aa>/<sha256>                          contents above 1 MiB, once each
    <directory>/.segment-…, .blob-…, .lock-…                 unfinished; Spark ignores hidden names

    event                          action
    append                         take the row into memory, give it the next offset
    64 MiB or 5 s reached          blobs and segment: temporary name → fsync → rename → fsync of
                                   the folder; only then the durable offset advances
    writing fails                  rows stay in memory, `Journal.error` says why, tried again
    memory limit reached           append refuses the row (JournalError), so it is not acknowledged
    opened                         own unfinished files are removed, offsets continue

A kill at any moment therefore loses no durable row and leaves no broken segment. A row may be
written twice when its publisher did not learn that it was durable; readers deduplicate.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..protocol.errors import ConfigError, JournalError
from . import missing
from .locking import lock_file
from .schema import JOURNAL, blob_path, segment_name, segments

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

log = logging.getLogger("pzc.journal")

SEGMENT_BYTES = 64 << 20
SEGMENT_AGE = 5.0
PENDING_BYTES = 256 << 20
BLOB_BYTES = 1 << 20
"""A content of more bytes than this goes to ``blobs/``."""

_ROW_OVERHEAD = 200
_INT64 = 1 << 63
_RECORDER = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_@.\-]*")
_LEFTOVER = re.compile(r"\.(?:segment|blob)-(?P<recorder>.+)-[0-9a-f]+(?:\.parquet)?\.tmp")
_REPEATED = ["serializer", "recorder", "publisher", "name", "topic", "epoch", "key_id", "content_ref"]
_PARQUET: dict[str, Any] = {"compression": "zstd", "use_dictionary": _REPEATED}

Buffer = bytes | bytearray | memoryview


class JournalRow(NamedTuple):
    """One notification as a recorder received it.

    Attributes:
        frames: the five frames; copied when they are not ``bytes``.
        publisher: agent id, or REP endpoint for PZC00.
        topic: as published.
        sequence: the topic's number, 0 when there is none.
        received_at: Unix seconds.
        name: the publisher's name, empty when it has none.
        epoch: the publisher's epoch, 0 when there is none.
        sent_at: Unix seconds; None when the message does not tell.
        key_id: the key that signed it, empty when unsigned.
    """

    frames: Sequence[Buffer]
    publisher: str
    topic: str
    sequence: int
    received_at: float
    name: str = ""
    epoch: int = 0
    sent_at: float | None = None
    key_id: str = ""


class Journal:
    """Writer of one recorder's segments. Safe from any thread; one process per recorder name.

    Args:
        directory: created when absent. It must be one file system.
        recorder: name in the file names: letters, digits and ``_ @ . -``.
        max_bytes: a segment is written when this much is in memory [64 MiB].
        max_age: or when the oldest row in memory is this old, in seconds [5.0].
        max_pending: limit of the memory for rows that cannot be written, in bytes [256 MiB].
        retry: pause between attempts after a failure, in seconds [1.0].
        on_durable: called with the durable offset each time it advances, in the thread that wrote.
        clock: monotonic seconds.

    Raises:
        ConfigError: for a recorder name that cannot stand in a file name.
        JournalError: when the directory cannot be used, is in use by another process under this
            recorder name, or holds a segment of this recorder that cannot be read.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        recorder: str,
        max_bytes: int = SEGMENT_BYTES,
        max_age: float = SEGMENT_AGE,
        max_pending: int = PENDING_BYTES,
        retry: float = 1.0,
        on_durable: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not _RECORDER.fullmatch(recorder):
            raise ConfigError(f"recorder name {recorder!r} may hold letters, digits and _ @ . - only")
        self.directory = Path(directory).absolute()
        self.recorder = recorder
        self.error: JournalError | None = None
        self._max_bytes, self._max_age, self._max_pending = max_bytes, max_age, max_pending
        self._retry, self._on_durable, self._clock = retry, on_durable, clock
        self._mutex = threading.RLock()
        self._rows: list[tuple[object, ...]] = []
        self._bytes = 0
        self._oldest = self._not_before = 0.0
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock: int | None = lock_file(
                self.directory / f".lock-{recorder}", "another process records under this name"
            )
        except OSError as exc:
            raise JournalError(f"journal {self.directory} cannot be opened by {recorder}: {exc}") from exc
        try:
            _remove_leftovers(self.directory, recorder)
            self._durable = _last_offset(self.directory, recorder)
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def durable_offset(self) -> int:
        """Highest offset on disk; -1 when there is none. Everything up to it may be acknowledged."""
        return self._durable

    @property
    def next_offset(self) -> int:
        """Offset of the next row."""
        return self._durable + 1 + len(self._rows)

    @property
    def pending_rows(self) -> int:
        """Rows in memory that are not durable yet."""
        return len(self._rows)

    @property
    def pending_bytes(self) -> int:
        """Their size in bytes."""
        return self._bytes

    def due_in(self) -> float | None:
        """Seconds until `tick` has something to do; None while no row waits."""
        with self._mutex:
            if not self._rows:
                return None
            due = self._oldest + self._max_age if self._bytes < self._max_bytes else 0.0
            return max(0.0, max(due, self._not_before) - self._clock())

    def append(self, row: JournalRow) -> int:
        """Take one row and write a segment when one is due.

        A failed write does not raise here, because the row was taken: see `error`.

        Returns:
            The row's offset.

        Raises:
            JournalError: the row was not taken: it cannot be stored, memory is full because
                nothing can be written, or the journal is closed.
        """
        try:
            taken, size = _checked(row)
        except (TypeError, ValueError, OverflowError, AttributeError) as exc:
            raise JournalError(f"row cannot be stored: {exc}") from exc
        with self._mutex:
            self._require_open()
            if self._rows and self._bytes + size > self._max_pending:
                self.tick()
            if self._rows and self._bytes + size > self._max_pending:
                raise JournalError(
                    f"journal {self.directory} holds {self._bytes} unwritten bytes: {self.error}"
                )
            if not self._rows:
                self._oldest = self._clock()
            offset = self.next_offset
            self._rows.append(taken)
            self._bytes += size
            self.tick()
            return offset

    def tick(self) -> int:
        """Write a segment if one is due; to be called when `due_in` has passed.

        Returns:
            The durable offset. A failure is kept in `error` and tried again later.
        """
        with self._mutex:
            if self.due_in() == 0.0:
                with contextlib.suppress(JournalError):
                    self.commit()
            return self._durable

    def commit(self) -> int:
        """Write everything now.

        Returns:
            The durable offset.

        Raises:
            JournalError: when it cannot be written; the rows stay in memory.
        """
        with self._mutex:
            self._require_open()
            if not self._rows:
                return self._durable
            try:
                _write(self.directory, self.recorder, self._durable + 1, self._rows)
            except (OSError, pa.ArrowException) as exc:
                raise self._failed(exc) from exc
            self._succeeded()
            return self._durable

    def close(self) -> None:
        """Write what is left and release the directory; may be called twice.

        Raises:
            JournalError: when the rest cannot be written. It was not acknowledged; the directory
                is released all the same.
        """
        with self._mutex:
            if self._lock is None:
                return
            try:
                self.commit()
            finally:
                self._release()

    def _require_open(self) -> None:
        if self._lock is None:
            raise JournalError(f"journal {self.directory} is closed")

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _succeeded(self) -> None:
        self._durable += len(self._rows)
        self._rows, self._bytes, self._not_before = [], 0, 0.0
        if self.error is not None:
            log.warning("journal %s is written again", self.directory)
            self.error = None
        if self._on_durable is not None:
            self._on_durable(self._durable)

    def _failed(self, exc: Exception) -> JournalError:
        error = JournalError(f"journal {self.directory} cannot be written: {exc}")
        if self.error is None:
            log.error(
                "%s; %d rows wait in memory, trying again every %g s", error, len(self._rows), self._retry
            )
        self.error = error
        self._not_before = self._clock() + self._retry
        return error


def _checked(row: JournalRow) -> tuple[tuple[object, ...], int]:
    """Everything that could make a whole segment fail later is refused here, row by row."""
    header, serializer, content, msgid, signature = (bytes(frame) for frame in row.frames)
    for text in (row.publisher, row.name, row.topic, row.key_id):
        text.encode()
    if not (-_INT64 <= row.epoch < _INT64 and -_INT64 <= row.sequence < _INT64):
        raise ValueError(f"epoch {row.epoch} or sequence {row.sequence} exceeds 64 bits")
    sent = None if row.sent_at is None else _microseconds(row.sent_at)
    taken = (
        header, serializer, content, msgid, signature, _microseconds(row.received_at),
        row.publisher, row.name, row.epoch, row.topic, row.sequence, sent, row.key_id or None,
    )  # fmt: skip
    return taken, len(header) + len(content) + len(signature) + _ROW_OVERHEAD


def _microseconds(seconds: float) -> int:
    value = round(seconds * 1e6)
    if not -_INT64 <= value < _INT64:
        raise ValueError(f"time {seconds} s exceeds the range of microseconds")
    return value


def _write(directory: Path, recorder: str, first: int, rows: Sequence[tuple[object, ...]]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    columns[2], refs = _store_blobs(directory, recorder, columns[2])
    origin = [[recorder] * len(rows), list(range(first, first + len(rows)))]
    columns = [*columns[:5], *origin, *columns[5:], refs]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, JOURNAL, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=JOURNAL)
    name = segment_name(recorder, first)
    temporary, target = directory / f".{name}.tmp", directory / name
    _durably(temporary, target, lambda file: pq.write_table(table, file, **_PARQUET))
    _sync_folder(directory)


def _store_blobs(directory: Path, recorder: str, contents: list[Any]) -> tuple[list[Any], list[Any]]:
    inline: list[Any] = list(contents)
    refs: list[Any] = [None] * len(contents)
    folders: set[Path] = set()
    for i, content in enumerate(contents):
        if len(content) <= BLOB_BYTES:
            continue
        digest = hashlib.sha256(content).hexdigest()
        target = blob_path(directory, digest)
        if not target.exists():
            target.parent.parent.mkdir(exist_ok=True)
            target.parent.mkdir(exist_ok=True)
            temporary = directory / f".blob-{recorder}-{digest}.tmp"
            _durably(temporary, target, lambda file, body=content: file.write(body))
        folders |= {target.parent, target.parent.parent}
        inline[i], refs[i] = b"", digest
    # Also for blobs that exist already: an earlier attempt may have failed before this point.
    for folder in folders:
        _sync_folder(folder)
    return inline, refs


def _durably(temporary: Path, target: Path, write: Callable[[BinaryIO], object]) -> None:
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder; a rename there is journalled by NTFS
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(directory: Path, recorder: str) -> None:
    for path in directory.iterdir():
        match = _LEFTOVER.fullmatch(path.name)
        if match and match["recorder"] == recorder:
            log.info("removing unfinished %s", path)
            path.unlink(missing_ok=True)


def _last_offset(directory: Path, recorder: str) -> int:
    finished = segments(directory, recorder)
    if not finished:
        return -1
    first, last = finished[-1]
    try:
        rows: int = pq.read_metadata(last).num_rows
    except (OSError, pa.ArrowException) as exc:
        raise JournalError(f"segment {last} cannot be read: {exc}") from exc
    return first + rows - 1
