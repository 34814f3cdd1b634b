"""Memo: what was worked out once and is looked up again; it begins anew when it is full."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CAPACITY = 1024
"""Values that are remembered where nothing else is said."""


class Memo(dict[K, V]):
    """A dictionary with a bound; safe from any thread."""

    def keep(self, key: K, value: V, most: int = CAPACITY) -> V:
        """Remember a value, and return it; all others are forgotten when there are so many already."""
        if len(self) >= most:
            self.clear()
        self[key] = value
        return value
