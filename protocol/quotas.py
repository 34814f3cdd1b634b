"""Quotas: what is remembered by a sender's own word, with room of its own for every key.

Whoever signs may say any agent id. So what is found by one stands under the key that proved the message, and
a key that fills its room makes nobody forget but itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Quotas(Generic[K, V]):
    """Values by key id (empty without keys) and name; a caller says how many a key may have."""

    def __init__(self) -> None:
        self._rooms: dict[str, OrderedDict[K, V]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rooms.values()))

    def get(self, key_id: str, name: K) -> V | None:
        """The value, or None."""
        room = self._rooms.get(key_id)
        return None if room is None else room.get(name)

    def put(self, key_id: str, name: K, value: V, limit: int) -> V | None:
        """Remember a value as the latest one of its key; the one that had to go for it, or None."""
        room = self._rooms.setdefault(key_id, OrderedDict())
        room[name] = value
        room.move_to_end(name)
        return room.popitem(last=False)[1] if len(room) > limit else None

    def pop(self, key_id: str, name: K) -> V | None:
        """Forget a value; returns it."""
        room = self._rooms.get(key_id)
        return None if room is None else room.pop(name, None)
