"""Which files of the tables become one next, and which are too old. Pure: no file is read or written.

::

    a folder to which files come      merged as the newest segments of a journal: `FAN` at least,
                                      and a row again only when its file becomes a few times as long
    nothing came to it for an hour    merged at once, into as few files as its bytes need
    a day older than is kept          given by `expired`
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from ..recording import compaction
from ..recording.compaction import Piece
from .summary import File

FAN = 32
"""Each task brings each folder a small file with each batch: fewer would have rows written once more."""

SETTLED = 3600.0
"""Seconds without a new file after which a folder is taken to be complete."""

_DAY = 86_400.0


class Folders:
    """Files of the tables by folder; its length counts the folders.

    Args:
        files: that the tables are made of.
        now: Unix seconds.
    """

    def __init__(self, files: Iterable[File], now: float) -> None:
        self._files: dict[str, dict[str, File]] = {}
        self._touched: dict[str, float] = {}
        self._news: set[str] = set()
        for file in files:
            self.add(file, now)

    def __len__(self) -> int:
        return len(self._files)

    def add(self, file: File, now: float) -> bool:
        """Take note of a file of the tables; whether it comes to its folder only now."""
        folder = file.folder
        held = self._files.setdefault(folder, {})
        if file.place in held:
            return False
        held[file.place], self._touched[folder] = file, now
        self._news.add(folder)
        return True

    def replace(self, files: Iterable[File], made: Iterable[File]) -> None:
        """Files were merged into others, or removed; a folder with none is forgotten."""
        left = {file.folder for file in files}
        for file in files:
            self._files.get(file.folder, {}).pop(file.place, None)
        for file in made:
            self._files.setdefault(file.folder, {})[file.place] = file
        for folder in left:
            if not self._files.get(folder):
                self._files.pop(folder, None)
                self.leave(folder)

    def leave(self, folder: str) -> None:
        """Look at a folder no more until another file comes to it."""
        self._touched.pop(folder, None)
        self._news.discard(folder)

    def due(self, now: float) -> tuple[str, list[File]]:
        """A folder and its files that become one next; no files when nothing is to be done."""
        for folder, touched in list(self._touched.items()):
            settled = now - touched >= SETTLED
            if not settled and folder not in self._news:
                continue
            run = _next(self._files[folder].values(), now, settled)
            if run:
                return folder, run
            self._news.discard(folder)
            if settled:
                self.leave(folder)
        return "", []

    def expired(self, now: float, keep: int) -> list[File]:
        """Files of days that are more than ``keep`` before today, and not among as many that hold rows."""
        today = datetime.datetime.fromtimestamp(now, datetime.UTC).date().toordinal()
        days = {folder: next(iter(files.values())).day.toordinal() for folder, files in self._files.items()}
        first = min(today - keep, compaction.first_kept(days.values(), keep))
        return [file for folder, day in days.items() if day < first for file in self._files[folder].values()]


def _next(files: Iterable[File], now: float, settled: bool) -> list[File]:
    # Files have no offsets of their own: that they stand one behind the other is all that counts.
    written = now - 2 * _DAY if settled else now
    by_path: dict[Path, File] = {}
    pieces: list[Piece] = []
    behind = 0
    for file in sorted(files, key=lambda file: (file.first, file.place)):
        path = Path(file.place)
        by_path[path] = file
        pieces.append(Piece(path, behind, file.rows, file.size, written))
        behind += file.rows
    return [by_path[piece.path] for piece in compaction.next_run(pieces, now, FAN)]
