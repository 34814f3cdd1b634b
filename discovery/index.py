"""Index: entries by name, and which of several is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .names import Pattern, is_pattern
from .records import Entry, Kind

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

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

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
        found = [self._entries[key] for key in self._keys(name)]
        return sorted(filter(_is_kind(kind), found), key=_rank, reverse=True)

    def match(self, pattern: str, kind: Kind | None = None) -> list[Entry]:
        """All entries of the names that match, sorted by name.

        Raises:
            ConfigError: for what is neither a name nor a pattern.
        """
        if not is_pattern(pattern) and pattern.startswith("/"):
            return self.owners(pattern, kind)
        wanted, right = Pattern(pattern), _is_kind(kind)
        found = [entry for entry in self if right(entry) and wanted.matches(entry.name)]
        return sorted(found, key=lambda entry: (entry.name, key_of(entry)))

    def _keys(self, name: str) -> tuple[Key, ...]:
        return self._named.get(name, ())


def _is_kind(kind: Kind | None) -> Callable[[Entry], bool]:
    if kind is None:
        return lambda entry: True
    if kind == "agent":
        return lambda entry: entry.kind != "topic"
    return lambda entry: entry.kind == kind
