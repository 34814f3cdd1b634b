"""Gaps: what a recorder knows to be missing from its journal, one line of JSON each.

::

    <directory>/_gaps-<recorder>.jsonl      the underscore hides it from Spark

The rows of a journal are notifications and nothing else, so gaps stand beside them. Whoever derives gaps from
sequence numbers needs none of this; it tells why, and when the recorder learned of it. A line may come twice,
when the recorder was killed before its publisher knew that it had been told.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from ..storage import Storage, open_private

MAX_WAITING = 10_000
"""Gaps that wait to be written; of more than that only the number of messages is kept."""


@dataclass(frozen=True, slots=True)
class GapRow:
    """Notifications that will not come.

    Attributes:
        at: Unix seconds when the recorder learned of it.
        publisher: agent id, or REP endpoint for PZC00.
        name: the publisher's name, empty when unknown.
        epoch: the publisher's epoch.
        topic: ``*`` when it is not known.
        first: first missing number; 0 when unknown.
        last: last one, included; others in between may have come.
        count: how many are missing; 0 after a restart, when nobody can know.
        reason: ``evicted`` (the mailbox was full), ``forgotten`` (it was removed after a long silence),
            ``restarted`` (the publisher), ``refused`` (what came could not be used), ``lost`` (on the way
            to a subscription that nothing is kept for), ``unwritten`` (gaps of this file).
    """

    at: float
    publisher: str
    name: str
    epoch: int
    topic: str
    first: int
    last: int
    count: int
    reason: str

    def __str__(self) -> str:
        who = self.name or self.publisher
        if not self.count:
            return f"{who} was started again: what it had published by then is not known"
        return f"{self.count} notifications of {who} {self.topic} are missing: {self.reason}"


class GapLog:
    """Appends gaps to the file of one recorder; safe from any thread.

    Args:
        directory: of the journal.
        recorder: its name.

    Attributes:
        count: messages that are known to be missing.
    """

    def __init__(self, directory: Path, recorder: str) -> None:
        self.count = 0
        self._path = directory / f"_gaps-{recorder}.jsonl"
        self._lock = threading.Lock()
        self._file = threading.Lock()  # taken before it by whoever writes
        self._waiting: deque[GapRow] = deque()
        self._unwritten = 0

    def add(self, gap: GapRow) -> None:
        """Take one; written by `write`."""
        with self._lock:
            self.count += gap.count
            if len(self._waiting) >= MAX_WAITING:
                self._unwritten += gap.count
            else:
                self._waiting.append(gap)

    def write(self) -> None:
        """Write what waits, durably.

        Raises:
            OSError: when it cannot be written; it waits on then, and may be in the file as well.
        """
        with self._file:
            self._write()

    def forget(self, before: float) -> None:
        """Take out what was told before a time, Unix seconds; OSError when the disk refuses."""
        with self._file, suppress(FileNotFoundError):
            told = self._path.read_bytes().splitlines(keepends=True)
            kept = [line for line in told if (row := _row_of(line)) is None or row.at >= before]
            if len(kept) < len(told):
                Storage().replace(self._path, b"".join(kept))

    def _write(self) -> None:
        with self._lock:
            rows, unwritten = list(self._waiting), self._unwritten
        if not rows:
            return
        count = len(rows)
        if unwritten:
            rows.append(GapRow(rows[-1].at, "", "", 0, "*", 0, 0, unwritten, "unwritten"))
        lines = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
        known = self._path.exists()
        with open_private(self._path, "ab") as file:
            if file.tell() and not self._ends_whole():
                file.write(b"\n")
            Storage().append(file, lines.encode(errors="replace"))
        if not known:
            Storage().sync(self._path.parent)
        with self._lock:
            self._unwritten -= unwritten
            for _ in range(count):
                self._waiting.popleft()

    def _ends_whole(self) -> bool:
        with open(self._path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def read_gaps(directory: str | Path) -> list[GapRow]:
    """Gaps that recorders have told of, each once; half a line is passed over.

    Args:
        directory: of the journal.
    """
    found: dict[tuple[Any, ...], GapRow] = {}
    for path in sorted(Path(directory).glob("_gaps-*.jsonl")):
        for line in path.read_bytes().splitlines():
            if (row := _row_of(line)) is not None:
                found.setdefault(astuple(row)[1:], row)
    return list(found.values())


def _row_of(line: bytes) -> GapRow | None:
    """None for half a line."""
    try:
        return GapRow(**json.loads(line))
    except (ValueError, TypeError):
        return None
