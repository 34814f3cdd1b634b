"""Files and folders that their owner alone can read: what was measured is nobody else's business."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Literal

FILE, FOLDER = 0o600, 0o700


def open_private(path: Path, mode: Literal["wb", "ab"]) -> BinaryIO:
    """Open a file for writing; one that is made here belongs to its owner alone.

    Raises:
        OSError: when it cannot be opened.
    """
    return open(path, mode, opener=_opener)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)


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
