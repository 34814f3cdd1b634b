"""Files and folders that are still there after a loss of power, from the return of these functions on.

The content of a file is on disk once the file was fsynced, its name once its folder was.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from .private import make_private, open_private


def sync_file(path: Path) -> None:
    """Let what was written to a file survive; OSError when the disk refuses."""
    _sync(path)


def sync_folder(folder: Path) -> None:
    """Let what was made, renamed or removed in a folder survive; OSError when the disk refuses."""
    if os.name != "nt":  # Windows cannot open a folder; a rename there is journalled by NTFS
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, content: bytes) -> None:
    """Write a file, whose name survives only when its folder is synchronised then; OSError as above."""
    with open_private(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """As `private.make_private`, for good; OSError as above."""
    for made in make_private(folder):
        sync_folder(made.parent)


class Storage:
    """The steps by which the tables get on a disk, one method each: what a test lets fail, or forgets."""

    def write(self, path: Path, content: bytes) -> None:
        """As `write_file`."""
        write_file(path, content)

    def replace(self, path: Path, content: bytes) -> None:
        """Put a file in place of the one before, for good."""
        temporary = path.with_name(f".{path.name}.tmp")
        self.write(temporary, content)
        self.rename(temporary, path)
        self.sync_folder(path.parent)

    def append(self, file: BinaryIO, content: bytes) -> None:
        """Add to the end of a file, for good; OSError when the disk refuses, and some of it may be there."""
        file.write(content)
        file.flush()
        os.fsync(file.fileno())

    def cut(self, file: BinaryIO, size: int) -> None:
        """Take away what is behind so many bytes of a file."""
        file.truncate(size)
        os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Put a file in its place, by a name that survives only when its folder is synchronised then."""
        os.replace(source, target)

    def make_folder(self, folder: Path) -> None:
        """As `make_folder`."""
        make_folder(folder)

    def sync_folder(self, folder: Path) -> None:
        """As `sync_folder`."""
        sync_folder(folder)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is removed."""
        path.unlink(missing_ok=True)
