"""Claims: which key a name belongs to.

::

    name     event                                    next
    free     an entry of it is announced              held by the key that signed the announcement
    held     another entry, by the same key           held
    held     an entry by another key                  held; the name is wanted
    held     the last entry of its key goes           left
    left     an entry of its key is announced         held
    left     an entry by another key                  left; the name is wanted
    left     `name_kept` seconds                      free; told when it is wanted

What a process tells counts with the key of its first announcement only. Without keys all announcements have
the same empty key id: nothing is refused and nothing kept.
"""

from __future__ import annotations

from ..protocol import limits
from .deadlines import Deadlines
from .index import Key

MAX_LEFT = 10_000
"""Names that were left and are kept for their key; the one that was left first is free before its time."""


class _Claim:
    __slots__ = ("entries", "key_id")

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.entries: set[Key] = set()


class Claims:
    """The names of one directory; see the table in the module's docstring."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}
        self._left = Deadlines[str]()
        self._wanted: set[str] = set()

    @property
    def next(self) -> float | None:
        """When to call `due`; None while nothing was left."""
        return self._left.next

    def claim(self, name: str, key_id: str, entry: Key) -> bool:
        """Judge an entry of a name, announced with a key; False while the name is another's."""
        claim = self._claims.setdefault(name, _Claim(key_id))
        if claim.key_id != key_id:
            self._wanted.add(name)
            return False
        claim.entries.add(entry)
        self._left.drop(name)
        return True

    def release(self, name: str, entry: Key, now: float) -> None:
        """An entry is gone; a name whose last one it was is kept for its key for a while."""
        claim = self._claims.get(name)
        if claim is None or entry not in claim.entries:
            return
        claim.entries.discard(entry)
        if not claim.entries and not claim.key_id:
            del self._claims[name]
        elif not claim.entries:
            self._left.set(name, now + limits.current.name_kept)
            if len(self._left) > MAX_LEFT:
                self._left.set(next(each for each in self._claims if each in self._left), now)

    def due(self, now: float) -> set[str]:
        """Set free what was left for long enough; the names that others wanted meanwhile."""
        free = set(self._left.due(now))
        for name in free:
            del self._claims[name]
        wanted = free & self._wanted
        self._wanted -= free
        return wanted
