"""Spool: what comes out of mailboxes, on disk before it is acknowledged, and gone once it is somewhere else.

::

    publisher's mailbox ─▶ recorder ─▶ segment ─▶ acknowledged
                                          └─▶ read, any number of times ─▶ `remove`

It is a journal like any other. The newest segment stays: it says where offsets go on, and how far the
publishers are recorded. A spool that holds `BYTES` asks its publishers for nothing more, so what they publish
stays in their mailboxes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from ...protocol.errors import JournalError
from ..recording.backlog import Named
from ..recording.recorder import Recorder
from ..schema import segment_recorder, segment_span, segments
from ..storage import Storage, lock_file
from . import mailboxes
from .options import Options

AGE = 0.05
"""Seconds for which a row waits for others of its segment."""

LOCK = ".lock"
"""File that whoever fills a spool holds locked."""

TAKEN = ".taken"
"""File that tells how many rows are somewhere else."""

BYTES = 1 << 30
"""Of segments that somebody needs, beyond which nothing more is asked for."""

WHOLE = 1 << 40
"""A content of less bytes stands in its row: a blob would have to be kept for as long as the row is."""


class Spool:
    """Fills while it is open; use as a context manager, or `close`.

    Args:
        folder: created when absent.
        options: targets, name and bounds of the mailboxes.
        wait: seconds for which the process that had it before may still live.
        most: bytes; see `BYTES`.

    Attributes:
        folder: as given.
        name: by which its offsets count; a spool that is lost and made anew has another one.

    Raises:
        JournalError: when the folder cannot be used, by another process either.
        PzcError: when a publisher refuses, or an endpoint cannot be reached.
    """

    def __init__(self, folder: Path, options: Options, wait: float = 0.0, most: int = BYTES) -> None:
        self.folder, self._mailbox = folder, options.name or ""
        self._sizes = _Sizes()
        try:
            self._sizes.make_folder(folder)
            self._lock = lock_file(folder / LOCK, f"another process reads mailboxes into {folder}", wait)
        except OSError as exc:
            raise JournalError(f"{folder} cannot be used: {exc}") from exc
        try:
            self.name = _name_in(folder)
            self._recorder = Recorder(
                folder, options.targets, name=self.name, protocol=options.protocol(), policy=options.policy,
                hold=lambda: self._sizes.bytes > most, max_age=AGE, blob_bytes=WHOLE, storage=self._sizes,
            )  # fmt: skip
            self.remove(lambda *_: False)
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def end(self) -> int:
        """The offset behind the last row that is on disk."""
        return self._recorder.journal.durable_offset + 1

    def _subscriptions(self) -> list[Named]:
        return list(zip(self._recorder.sources, self._recorder.subscriptions, strict=True))

    def settle(self, timeout: float) -> bool:
        """Wait until what the mailboxes hold now is here; False after so many seconds."""
        recorder = self._recorder
        settled = mailboxes.settle(
            recorder.agent, self._subscriptions(), recorder.ended, self._mailbox, lambda: recorder.recorded,
            timeout,
        )  # fmt: skip
        recorder.journal.commit()
        return settled

    def check(self) -> None:
        """Errors as `mailboxes.check`."""
        mailboxes.check(self._subscriptions(), self._recorder.ended)

    def remove(self, is_over: Callable[[str, int, int], bool]) -> None:
        """Remove the segments that nobody needs any more, but for the newest one.

        Args:
            is_over: gets the name that the offsets of a segment count by, its first and last offset.
        """
        listed, needed = segments(self.folder), 0
        ends = [first for first, _ in listed[1:]]
        for (_, path), end in zip_longest(listed, ends):
            recorder, first, _ = segment_span(path)
            if not is_over(recorder, first, (self.end if end is None else end) - 1):
                needed += path.stat().st_size
            elif end is not None:
                path.unlink(missing_ok=True)
        self._sizes.bytes = needed

    @property
    def taken(self) -> int:
        """The offset behind the last row that somebody has told to be somewhere else, by `take`."""
        try:
            name, _, rows = (self.folder / TAKEN).read_text(encoding="utf-8").partition(" ")
        except FileNotFoundError:
            return 0
        return int(rows) if name == self.name else 0

    def take(self, rows: int) -> None:
        """The rows before an offset are somewhere else."""
        if rows > self.taken:
            self._sizes.replace(self.folder / TAKEN, f"{self.name} {rows}".encode())
            self.remove(lambda name, _, last: name == self.name and last < rows)

    def status(self) -> dict[str, Any]:
        """As `Recorder.statistics`."""
        return self._recorder.statistics()

    def close(self) -> None:
        """Receive no more; the mailboxes stay."""
        try:
            self._recorder.close()
        finally:
            self._lock.close()


class _Sizes(Storage):
    """Knows how large the files are that somebody needs."""

    bytes = 0

    def put(self, temporary: Path, target: Path, write: Callable[[BinaryIO], object]) -> None:
        """As `Storage.put`."""
        super().put(temporary, target, write)
        self.bytes += target.stat().st_size


def _name_in(folder: Path) -> str:
    found = segments(folder)
    return segment_recorder(found[-1][1]) if found else f"spool-{uuid.uuid4().hex[:8]}"
