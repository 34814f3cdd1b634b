"""What a process of a lab wrote, over the files that its log was divided into."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

LOG_BYTES, LOG_FILES = 1 << 20, 5
"""Bytes of a log at most; old logs that are kept."""


class LogReader:
    """Reads each line of a log once, also those that have gone to an old file meanwhile.

    Args:
        path: of the log; the old ones are ``PATH.1``, the newest, to ``PATH.5``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file, self._place = 0, 0

    def last(self, count: int) -> list[str]:
        """The last lines; `more` goes on from there."""
        with ExitStack() as stack:
            files, found = self._files(stack), 0
            for number in list(files)[::-1]:  # old files are read only where the newer ones have too few
                self._file, self._place = number, 0
                found += files[number].read().count(b"\n")
                if found >= count:
                    break
            return list(deque(self._read(files), count))

    def more(self) -> Iterator[str]:
        """The whole lines that have come since the last call, oldest first."""
        with ExitStack() as stack:
            yield from self._read(self._files(stack))

    def _read(self, files: dict[int, BinaryIO]) -> Iterator[str]:
        numbers = list(files)
        if self._file in files:
            numbers = numbers[numbers.index(self._file) :]
        for number in numbers:
            if number != self._file or self._place > os.fstat(files[number].fileno()).st_size:
                self._file, self._place = number, 0
            files[number].seek(self._place)
            while (line := files[number].readline()).endswith(b"\n"):
                self._place += len(line)
                yield line.rstrip(b"\n").decode(errors="backslashreplace")

    def _files(self, stack: ExitStack) -> dict[int, BinaryIO]:
        """Its files by their numbers, the oldest first."""
        newest_first = {os.fstat(file.fileno()).st_ino: file for file in self._opened(stack)}
        return dict(reversed(newest_first.items()))

    def _opened(self, stack: ExitStack) -> Iterator[BinaryIO]:
        """Its files, the newest first: one that is renamed meanwhile may come twice, and none is left out."""
        for number in range(LOG_FILES + 1):
            path = self._path.with_name(f"{self._path.name}.{number}") if number else self._path
            try:
                yield stack.enter_context(path.open("rb"))
            except FileNotFoundError:
                if number:
                    return
