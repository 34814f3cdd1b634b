"""Counters: what an agent saw, by name; exact from any thread."""

from __future__ import annotations

import threading
from collections import Counter


class Counters:
    """Named counts that only grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        """Add to one count."""
        with self._lock:
            self._counts[name] += count

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def as_dict(self) -> dict[str, int]:
        """A copy, sorted by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))
