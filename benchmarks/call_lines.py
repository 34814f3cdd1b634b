"""Lines of code per layer, in version 0.2 and now: Python with docstrings, and C."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from benchmarks.children import ROOT
from benchmarks.old_version import OLD
from benchmarks.tables import table

LAYERS = (
    "protocol", "delivery", "discovery", "shm", "transport", "agents/client", "agents/server",
    "agents/notifications", "agents/naming", "agents", "aio", "pipeline", "console", "testing",
)  # fmt: skip


def measure() -> str:
    """The table."""
    now = _count(ROOT)
    try:
        before = _count(OLD.source())
    except (OSError, subprocess.SubprocessError):
        before = Counter[str]()
    rows = [[layer, str(before[layer] or "-"), str(now[layer])] for layer in LAYERS]
    return table(("layer", "lines in 0.2", "lines"), [*rows, ["sum", str(before.total()), str(now.total())]])


def _count(root: Path) -> Counter[str]:
    lines: Counter[str] = Counter()
    for path in (*root.rglob("*.py"), *root.rglob("*.c")):
        layer = _layer(path.relative_to(root))
        if layer:
            lines[layer] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def _layer(path: Path) -> str:
    """The innermost layer that a file belongs to; empty for tests and what stands beside the package."""
    for folder in (parent.as_posix() for parent in path.parents):
        if folder in LAYERS:
            return folder
    return ""
