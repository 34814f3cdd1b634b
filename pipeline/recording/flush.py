"""Rows that a recorder has taken and not finished: whoever reads a journal lets them be written first.

::

    reader      .flush-<recorder>/<token>   made         waits until it is gone, or the recorder is
    recorder                                found ─▶ everything in memory is written ─▶ removed

So a reader gets all that was taken before it began, however young it is, and asks nobody over a network:
whoever may write in the folder of a journal may ask its recorders.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...protocol.errors import JournalError
from ..storage import FOLDER, lock_file

log = logging.getLogger("pzc.journal")

TIMEOUT = 10.0
"""Seconds that a reader gives a recorder: as long as a full memory needs on a slow disk."""

_PREFIX = ".flush-"
_LOOK = 0.02


def lock_of(directory: Path, recorder: str) -> Path:
    """The file that a recorder of this name holds locked while it lives."""
    return directory / f".lock-{recorder}"


class FlushRequests:
    """The requests that readers leave for one recorder.

    Args:
        directory: of the journal, which the recorder has locked.
        recorder: its name.
    """

    def __init__(self, directory: Path, recorder: str) -> None:
        self._folder = directory / f"{_PREFIX}{recorder}"

    def open(self) -> None:
        """Tell readers that somebody answers; one that the disk refuses is not asked before `answer`."""
        with suppress(OSError):
            self._folder.mkdir(FOLDER, exist_ok=True)

    def answer(self, write: Callable[[], object]) -> None:
        """Write what is in memory if somebody asked for it.

        Args:
            write: writes it; while it raises JournalError the requests stay.
        """
        self.open()
        with suppress(OSError, JournalError):
            if asked := os.listdir(self._folder):
                write()
            for token in asked:
                (self._folder / token).unlink(missing_ok=True)

    def close(self) -> None:
        """Answer nobody any more."""
        shutil.rmtree(self._folder, ignore_errors=True)


def flush(directory: str | Path, timeout: float = TIMEOUT) -> None:
    """Let the recorders of a journal write what they have taken; one that does not is named in the log.

    Args:
        directory: of the journal; without a living recorder nothing happens.
        timeout: seconds for all of them.
    """
    home, deadline, pause = Path(directory), time.monotonic() + timeout, threading.Event()
    token = f"{uuid.uuid4()}"
    asked = [each for each in home.glob(f"{_PREFIX}*") if _ask(each, token)]
    while asked := [each for each in asked if (each / token).exists() and _is_answered(each)]:
        if time.monotonic() > deadline:
            for each in asked:
                (each / token).unlink(missing_ok=True)
                _tell(each, f"it did not write it within {timeout:g} s")
            return
        pause.wait(_LOOK)


def _ask(folder: Path, token: str) -> bool:
    try:
        if not _is_answered(folder):
            return False
        (folder / token).touch()
    except FileNotFoundError:  # the recorder has just written everything, and ended
        return False
    except OSError as exc:
        _tell(folder, f"it could not be asked: {exc}")
        return False
    return True


def _is_answered(folder: Path) -> bool:
    """Whether the recorder lives; what a killed one left is removed."""
    try:
        lock = lock_file(lock_of(folder.parent, folder.name.removeprefix(_PREFIX)), "it lives")
    except JournalError:
        return True
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        lock.close()
    return False


def _tell(folder: Path, why: str) -> None:
    log.warning("what %s has in memory is left out: %s", folder.name.removeprefix(_PREFIX), why)
