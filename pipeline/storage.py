"""Files and folders on a disk: private, locked, and still there after a loss of power.

They belong to their owner alone: what was measured is nobody else's business. The content of a file is on
disk once the file was synchronised, its name once its folder was.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Literal

from ..protocol.errors import ConfigError, JournalError
from ..transport.inherited import mine

FILE, FOLDER = 0o600, 0o700

_LOOK = 0.05


def user_folder(variable: str, *below: str) -> Path:
    """Where files of this user are: as a variable such as ``XDG_STATE_HOME`` says, or below the home folder.

    Raises:
        ConfigError: when there is neither.
    """
    given = os.environ.get(variable, "")
    if os.path.isabs(given):
        return Path(given)
    try:
        return Path.home().joinpath(*below)
    except RuntimeError as exc:
        raise ConfigError(f"this user has no home directory: set HOME or {variable} to a folder") from exc


def open_private(path: Path, mode: Literal["wb", "ab"]) -> BinaryIO:
    """Open a file for writing; one that is made here belongs to its owner alone.

    What is appended has no buffer: what the disk refused would be written all the same when it is closed.

    Raises:
        OSError: when it cannot be opened.
    """
    buffering = 0 if mode == "ab" else -1
    return open(path, mode, buffering, opener=lambda name, flags: os.open(name, flags, FILE))


def make_private(folder: Path, *, inside: Path | None = None) -> list[Path]:
    """Make a folder and those above it that are absent; one that exists keeps its mode.

    Args:
        folder: what is made.
        inside: a folder above it that is not made when it is absent.

    Returns:
        Those that were absent, from the top.

    Raises:
        OSError: when it cannot be made.
    """
    if folder == inside or folder.is_dir():
        return []
    made = make_private(folder.parent, inside=inside)
    folder.mkdir(mode=FOLDER, exist_ok=True)
    return [*made, folder]


def lock_file(path: Path, busy: str, wait: float = 0.0, *, shared: bool = False) -> FileIO:
    """File that is locked while it is open; the kernel drops the lock on a kill, and a forked child has none.

    Args:
        path: of the file, made when absent.
        busy: what the error says when another process holds it.
        wait: seconds for which it may still do so.
        shared: others may hold one that is shared, too (not on Windows).

    Raises:
        JournalError: when another process holds it.
        OSError: when the file cannot be made or locked.
    """
    deadline, pause = time.monotonic() + wait, threading.Event()

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CREAT, FILE)

    file = mine(lambda: FileIO(path, "r+", opener=opener))
    try:
        while not _lock(file, shared):
            if time.monotonic() >= deadline:
                raise JournalError(busy)
            pause.wait(_LOOK)
    except BaseException:
        file.close()
        raise
    return file


def _lock(file: FileIO, shared: bool) -> bool:
    """Lock it; False when another process has."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as exc:
        if sys.platform == "win32" or isinstance(exc, BlockingIOError):
            return False
        told = f"{exc.strerror}: its file system has no locks, use a folder on another one"
        raise OSError(exc.errno, told, str(file.name)) from exc
    return True


class Storage:
    """The steps by which files get on a disk, one method each: what a test watches, lets fail, or forgets.

    Each raises OSError when the disk refuses.
    """

    def settle(self, file: BinaryIO) -> None:
        """Let what was written to an open file survive."""
        file.flush()
        os.fsync(file.fileno())

    def sync(self, path: Path) -> None:
        """Let what was written to a file, or made, renamed or removed in a folder, survive."""
        folder = path.is_dir()
        if os.name == "nt" and folder:  # cannot be opened; a rename there is journalled by NTFS
            return
        descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)  # Windows wants to write for it
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, whose name survives only when its folder is synchronised then."""
        with open_private(path, "wb") as file:
            file.write(content)
            self.settle(file)

    def replace(self, path: Path, content: bytes) -> None:
        """Put a file in place of the one before, for good."""
        temporary = path.with_name(f".{path.name}.tmp")
        self.write(temporary, content)
        self.rename(temporary, path)
        self.sync(path.parent)

    def put(self, temporary: Path, target: Path, write: Callable[[BinaryIO], object]) -> None:
        """As `write`, under a temporary name first; after an error nothing is left of it."""
        try:
            with open_private(temporary, "wb") as file:
                write(file)
                self.settle(file)
            self.rename(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise

    def append(self, file: BinaryIO, content: bytes) -> None:
        """Add to the end of a file, for good; after an error some of it may be there."""
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]
        self.settle(file)

    def cut(self, file: BinaryIO, size: int) -> None:
        """Take away what is behind so many bytes of a file."""
        file.truncate(size)
        self.settle(file)

    def rename(self, source: Path, target: Path) -> None:
        """Put a file in its place, by a name that survives only when its folder is synchronised then."""
        os.replace(source, target)

    def make_folder(self, folder: Path) -> None:
        """As `make_private`, for good."""
        for made in make_private(folder):
            self.sync(made.parent)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is removed."""
        path.unlink(missing_ok=True)
