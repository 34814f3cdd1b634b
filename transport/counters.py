"""Counters: what an agent saw, by name; exact from any thread."""

from __future__ import annotations

import threading
from collections import Counter


class Counters:
    """Named counts that only grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._tallies: list[Counter[str]] = []

    def add(self, name: str, count: int = 1) -> None:
        """Add to one count."""
        with self._lock:
            self._counts[name] += count

    def tally(self) -> Counter[str]:
        """Counts that one thread alone adds to, without a lock; they belong to these until `fold`."""
        made: Counter[str] = Counter()
        with self._lock:
            self._tallies.append(made)
        return made

    def fold(self, tally: Counter[str]) -> None:
        """Nobody adds to a tally any more."""
        with self._lock:
            self._tallies = [each for each in self._tallies if each is not tally]
            self._counts.update(tally)

    def __getitem__(self, name: str) -> int:
        with self._lock:
            return self._counts[name] + sum(tally[name] for tally in self._tallies)

    def as_dict(self) -> dict[str, int]:
        """A copy, sorted by name."""
        with self._lock:
            counts = self._counts.copy()
            for tally in self._tallies:
                counts.update(tally.copy())
        return dict(sorted(counts.items()))
