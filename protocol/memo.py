"""Memo: what is remembered of things without number, with a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CAPACITY = 1024
"""Values that are remembered where nothing else is said."""


class Memo(dict[K, V]):
    """What was worked out once; it begins anew when it is full. Safe from any thread."""

    def keep(self, key: K, value: V, most: int = CAPACITY) -> V:
        """Remember a value, and return it; all others are forgotten when there are so many already."""
        if len(self) >= most:
            self.clear()
        self[key] = value
        return value


def keep_recent(remembered: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Remember a value as the latest one, instead of the oldest when there are so many."""
    remembered[key] = value
    remembered.move_to_end(key)
    if len(remembered) > most:
        remembered.popitem(last=False)
