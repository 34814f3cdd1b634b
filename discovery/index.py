"""Index: entries by name, and which of several is meant; claims: which key a name belongs to."""

from __future__ import annotations

from .deadlines import Deadlines
from .names import Pattern, is_pattern
from .records import Entry, Kind

_NAME_KEPT = 60.0
"""Seconds for which the name of an agent that is gone can be taken only with the key that it had."""


Key = tuple[bytes, int]
"""Process and number of an entry; of a static peer, its name as bytes and 0."""


def key_of(entry: Entry) -> Key:
    """Where an entry stands."""
    return (entry.process, entry.number) if entry.number else (entry.name.encode(), 0)


def _rank(entry: Entry) -> tuple[bool, int, int, Key]:
    # What the deployment itself states counts before whatever the network says; then the newest start.
    return (entry.number == 0, entry.started, entry.epoch, key_of(entry))


class Index:
    """Entries by key and by name."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._named: dict[str, tuple[Key, ...]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Entry | None:
        """The entry of a key."""
        return self._entries.get(key)

    def put(self, entry: Entry) -> Entry | None:
        """Set the entry of its key; returns the one that was there."""
        old = self.remove(key_of(entry))
        self._entries[key_of(entry)] = entry
        self._named[entry.name] = (*self._keys(entry.name), key_of(entry))
        return old

    def remove(self, key: Key) -> Entry | None:
        """Forget the entry of a key; returns it."""
        old = self._entries.pop(key, None)
        if old is not None:
            left = tuple(other for other in self._keys(old.name) if other != key)
            if left:
                self._named[old.name] = left
            else:
                del self._named[old.name]
        return old

    def owners(self, name: str, kind: Kind | None = None) -> list[Entry]:
        """All entries of a name (from the root), the one that counts first; services are agents, too."""
        found = [entry for key in self._keys(name) if (entry := self._entries[key]).is_a(kind)]
        return sorted(found, key=_rank, reverse=True)

    def match(self, pattern: str, kind: Kind | None = None) -> list[Entry]:
        """All entries of the names that match, sorted by name.

        Raises:
            ConfigError: for what is neither a name nor a pattern.
        """
        if not is_pattern(pattern) and pattern.startswith("/"):
            return self.owners(pattern, kind)
        wanted = Pattern(pattern)
        found = [each for each in self._entries.values() if each.is_a(kind) and wanted.matches(each.name)]
        return sorted(found, key=lambda entry: (entry.name, key_of(entry)))

    def _keys(self, name: str) -> tuple[Key, ...]:
        return self._named.get(name, ())


MAX_LEFT = 10_000
"""Names that were left and are kept for their key; the one that was left first is free before its time."""


class _Claim:
    __slots__ = ("entries", "key_id")

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.entries: set[Key] = set()


class Claims:
    """The names of one directory; see the table.

    ::

        name     event                                    next
        free     an entry of it is announced              held by the key that signed the announcement
        held     another entry, by the same key           held
        held     an entry by another key                  held; the name is wanted
        held     the last entry of its key goes           left
        left     an entry of its key is announced         held
        left     an entry by another key                  left; the name is wanted
        left     `name_kept` seconds                      free; told when it is wanted

    What a process tells counts with the key of its first announcement only. Without keys all announcements
    have the same empty key id: nothing is refused and nothing kept.
    """

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
            self._left.set(name, now + _NAME_KEPT)
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
