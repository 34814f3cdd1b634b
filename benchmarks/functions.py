"""Counts the Python functions that the threads of a child run."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from types import FrameType

COUNT = "COUNT_FUNCTIONS"
"""Variable that has a child count."""


class Functions:
    """Counts calls of Python functions by thread, from `install` on."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def _count(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            self._counts[threading.get_ident()] += 1

    def install(self) -> None:
        """Count in this thread, and in all that are started from now on."""
        threading.setprofile(self._count)
        sys.setprofile(self._count)

    def counts(self) -> list[int]:
        """So far, the busiest thread first."""
        return sorted(self._counts.values(), reverse=True)

    def clear(self) -> None:
        """Begin anew."""
        self._counts.clear()
