"""Files of shared memory that a benchmark's children leave behind: what they had mapped, or named as told."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

FOLDER = Path("/dev/shm")
MAPPED = re.compile(rb"(/dev/shm/.+?)(?: \(deleted\))?$", re.MULTILINE)


class Leftovers:
    """What processes use meanwhile, and what is still there when they have ended.

    What was there before they began is somebody else's, even when they use it.

    Args:
        token: files with this in their names are theirs as well.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._before = {*FOLDER.glob("*")}
        self._used: set[Path] = set()

    def note(self, pid: int) -> None:
        """Remember what a process has mapped; a process that is gone has nothing."""
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{pid}/maps").read_bytes()
            self._used.update(Path(found.decode()) for found in MAPPED.findall(maps))

    def sweep(self) -> list[Path]:
        """Remove what those processes have left; which files that were."""
        named = FOLDER.glob(f"*{self._token}*")
        mapped = (path for path in self._used - self._before if path.exists())
        left = sorted({*named, *mapped})
        for path in left:
            path.unlink(missing_ok=True)
        self._used.clear()
        return left
