"""Contents that tell whether they are whole, and who has which shared memory."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np


def payload(number: int, size: int) -> Any:
    """An array of bytes that no other number has, at no place of it."""
    words = np.arange(-(-size // 8), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (words + np.uint64(number * 0x2545F4914F6CDD1D & (1 << 64) - 1)).view(np.uint8)[:size]


def digest(content: object) -> str:
    """SHA-256 of the bytes of a content."""
    return hashlib.sha256(memoryview(content)).hexdigest()  # type: ignore[arg-type]


def memory_of(pid: int | str) -> set[int]:
    """Blocks of which a process has a descriptor or a mapping, as inodes; nothing for one that is gone."""
    found: set[int] = set()
    try:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if os.readlink(each).startswith("/memfd:pzc"):
                    found.add(each.stat().st_ino)
            except FileNotFoundError:
                continue
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            if "/memfd:pzc" in line:
                found.add(int(line.split()[4]))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass
    return found


def memory_of_all() -> set[int]:
    """Blocks of all processes of this machine."""
    return set[int]().union(*(memory_of(name) for name in os.listdir("/proc") if name.isdigit()))
