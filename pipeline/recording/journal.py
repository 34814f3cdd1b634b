"""Journal: what a recorder has durably written.

::

    <directory>/segment-<recorder>-<first offset>.parquet    finished, never changed
    <directory>/blobs/<aa>/<sha256>                          contents above 1 MiB, once each
    <directory>/.segment-…, .blob-…                          unfinished; Spark ignores hidden names
    <directory>/.lock-…, .flush-…                            who records; who asks for more (`flush`)

    event                          action
    take, extend                   take the row into memory, give it the next offset
    64 MiB or 5 s reached          blobs and segment: temporary name → fsync → rename → fsync of
                                   the folder; only then the durable offset advances
    writing fails                  rows stay in memory, `Journal.error` says why, tried again
    memory limit reached           take refuses the row (JournalError), so it is not acknowledged;
                                   extend takes it, so its caller asks `Journal.full` before
    opened                         own unfinished files are removed, offsets continue

Rows are taken while others are written: `take` and `extend` write nothing and need somebody who calls `tick`.

A kill at any moment therefore loses no durable row and leaves no broken segment. What comes again because its
publisher did not learn that it was durable is left out (`numbers`).
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError, JournalError
from ..storage import Storage, lock_file
from .flush import lock_of
from .rows import Rows
from .segments import BLOB_BYTES, prepare, remove_leftovers, write_segment, written

if TYPE_CHECKING:
    from ...agents import Burst
    from ...agents.notification import Notification

log = logging.getLogger("pzc.journal")

SEGMENT_BYTES = 64 << 20
SEGMENT_ROWS = 250_000
SEGMENT_AGE = 5.0
PENDING_BYTES = 256 << 20
ASKED = 0.5
"""Seconds: a reader that finds out whether a recorder lives holds its lock for a moment."""

_RECORDER = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_@.\-]*")


class Journal:
    """Writer of one recorder's segments. Safe from any thread; one process per recorder name.

    Args:
        directory: created when absent. It must be one file system.
        recorder: name in the file names: letters, digits and ``_ @ . -``.
        max_bytes: a segment is written when this much is in memory [64 MiB].
        max_rows: or so many rows [250 000].
        max_age: or when the oldest row in memory is this old, in seconds [5.0].
        max_pending: limit of the memory for rows that cannot be written, in bytes [256 MiB].
        retry: pause between attempts after a failure, in seconds [1.0].
        blob_bytes: a content of more bytes stands beside the segments, in a blob [1 MiB].
        on_durable: called with the durable offset each time it advances, in the thread that wrote.
        clock: monotonic seconds.
        storage: writes.

    Attributes:
        numbers: how far it has its publishers.

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
        max_rows: int = SEGMENT_ROWS,
        max_age: float = SEGMENT_AGE,
        max_pending: int = PENDING_BYTES,
        retry: float = 1.0,
        blob_bytes: int = BLOB_BYTES,
        on_durable: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        storage: Storage | None = None,
    ) -> None:
        if not _RECORDER.fullmatch(recorder) or recorder.endswith(".to"):
            raise ConfigError(f"recorder name {recorder!r} may hold letters, digits and _ @ . - only")
        self.directory = Path(directory).absolute()
        self.recorder = recorder
        self.error: JournalError | None = None
        self._max_bytes, self._max_rows = max_bytes, max_rows
        self._max_age, self._max_pending = max_age, max_pending
        self._retry, self._on_durable, self._clock = retry, on_durable, clock
        self._blob_bytes, self._storage = blob_bytes, storage or Storage()
        self._mutex = threading.RLock()  # taken by whoever takes rows
        self._writing = threading.RLock()  # taken before it by whoever writes
        self._rows = Rows()
        self._flying = Rows()  # being written
        self._oldest = self._not_before = 0.0
        try:
            self._storage.make_folder(self.directory)
            busy = "another process records under this name"
            self._lock = lock_file(lock_of(self.directory, recorder), busy, ASKED)
        except OSError as exc:
            raise JournalError(f"journal {self.directory} cannot be opened by {recorder}: {exc}") from exc
        try:
            remove_leftovers(self.directory, recorder)
            self._durable, self.numbers = written(self.directory, recorder)
            prepare()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """False when it was closed, and in a forked child, whose parent has it."""
        return not self._lock.closed

    @property
    def durable_offset(self) -> int:
        """Highest offset on disk; -1 when there is none. Everything up to it may be acknowledged."""
        return self._durable

    @property
    def next_offset(self) -> int:
        """Offset of the next row."""
        return self._durable + 1 + self.pending_rows

    @property
    def pending_rows(self) -> int:
        """Rows in memory that are not durable yet."""
        with self._mutex:
            return len(self._flying) + len(self._rows)

    @property
    def pending_bytes(self) -> int:
        """Their size in bytes."""
        return self._flying.bytes + self._rows.bytes

    @property
    def full(self) -> bool:
        """Half of the memory is used: nothing more should be asked for, what was asked for has room."""
        return self.pending_bytes * 2 >= self._max_pending

    def due_in(self) -> float | None:
        """Seconds until `tick` has something to do; None while no row waits."""
        with self._mutex:
            rows = self._rows
            if not rows:
                return None
            is_large = rows.bytes >= self._max_bytes or len(rows) >= self._max_rows
            due = 0.0 if is_large else self._oldest + self._max_age
            return max(0.0, max(due, self._not_before) - self._clock())

    def take(self, row: Notification) -> int:
        """Take a raw notification, and write nothing: a segment that is due is left to the next `tick`.

        Returns:
            The row's offset.

        Raises:
            JournalError: the row was not taken: it cannot be stored, memory is full because
                nothing can be written, or the journal is closed.
        """
        one = Rows()
        try:
            one.append(row)
        except (TypeError, ValueError, OverflowError, AttributeError) as exc:
            raise JournalError(f"row cannot be stored: {exc}") from exc
        with self._mutex:
            self._require_open()
            if self.pending_rows and self.pending_bytes + one.bytes > self._max_pending:
                raise JournalError(
                    f"journal {self.directory} holds {self.pending_bytes} unwritten bytes: {self.error}"
                )
            return self._take(lambda: self._rows.join(one))

    def extend(self, burst: Burst) -> int:
        """Take many rows, whatever the memory limit; another thread has to `tick`.

        Returns:
            The offset of the last one.

        Raises:
            JournalError: when the journal is closed.
        """
        with self._mutex:
            self._require_open()
            if not burst.rows:
                return self.next_offset - 1
            return self._take(lambda: self._rows.extend(burst)) + len(burst.rows) - 1

    def _take(self, put: Callable[[], object]) -> int:
        """The offset of the next row, which is put; with the mutex."""
        offset = self.next_offset
        if not self._rows:
            self._oldest = self._clock()
        put()
        return offset

    def tick(self) -> int:
        """Write a segment if one is due; to be called when `due_in` has passed.

        Returns:
            The durable offset. A failure is kept in `error` and tried again later.
        """
        if self.due_in() == 0.0:
            with self._writing:
                if self.due_in() == 0.0:  # another thread may have been quicker
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
        with self._writing:
            with self._mutex:
                self._require_open()
                if not self._rows:
                    return self._durable
                rows, self._rows, oldest = self._rows, Rows(), self._oldest
                self._flying = rows
            try:
                first, recorder = self._durable + 1, self.recorder
                write_segment(
                    self.directory, recorder, first, rows, self.numbers, self._blob_bytes, self._storage
                )
            except Exception as exc:  # of the disk, or for want of memory or threads: every row is kept
                raise self._failed(exc, oldest) from exc
            self._succeeded()
            return self._durable

    def close(self) -> None:
        """Write what is left and release the directory; may be called twice.

        Raises:
            JournalError: when the rest cannot be written. It was not acknowledged; the directory
                is released all the same.
        """
        if not self.is_open:  # of a forked child, where nobody gives back what the parent's threads hold
            return
        with self._writing:
            if not self.is_open:
                return
            try:
                self.commit()
            finally:
                self._lock.close()

    def _require_open(self) -> None:
        if not self.is_open:
            raise JournalError(f"journal {self.directory} is closed")

    def _succeeded(self) -> None:
        with self._mutex:
            self._durable += len(self._flying)
            self._flying, self._not_before = Rows(), 0.0
        if self.error is not None:
            log.warning("journal %s is written again", self.directory)
            self.error = None
        if self._on_durable is not None:
            self._on_durable(self._durable)

    def _failed(self, exc: Exception, oldest: float) -> JournalError:
        error = JournalError(f"journal {self.directory} cannot be written: {exc}")
        with self._mutex:
            rows, self._flying = self._flying, Rows()
            rows.join(self._rows)
            self._rows, self._oldest = rows, oldest
            self._not_before = self._clock() + self._retry
        if self.error is None:
            log.error("%s; %d rows wait in memory, trying again every %g s", error, len(rows), self._retry)
        self.error = error
        return error
