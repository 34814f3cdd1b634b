"""Quotas: what is remembered by a sender's own word, and what waits, with room of its own for every key.

Whoever signs may say any agent id. So what is found by one stands under the key that proved the message, and
a key that fills its room takes none of another's.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from .errors import Refused

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


class Shares:
    """How many of something there are, of all keys together and of each one.

    Args:
        most: of all keys together; one key has at most half of it.
        what: is counted, for people.

    Attributes:
        total: of all keys.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most, self._of_key, self._what = most, most // 2, what
        self._of: Counter[str] = Counter()
        self.total = 0

    def add(self, key_id: str, count: int = 1) -> None:
        """So many more of a key, or fewer."""
        self.total += count
        self._of[key_id] += count
        if not self._of[key_id]:
            del self._of[key_id]

    def room(self, key_id: str) -> int:
        """How many more a key may have."""
        return min(self._most - self.total, self._of_key - self._of[key_id])

    def need(self, key_id: str, count: int, remedy: str) -> None:
        """See that there is room for so many more of a key.

        Raises:
            Refused: when there is none; it says what there is too much of, whose, the bound, and the remedy.
        """
        if count <= self.room(key_id):
            return
        if self._of[key_id] + count > self._of_key:
            whose, there, bound = "with this key", self._of[key_id], self._of_key
        else:
            whose, there, bound = "of all keys", self.total, self._most
        raise Refused(f"no room: {there} {self._what} {whose} already (at most {bound}); {remedy}")
