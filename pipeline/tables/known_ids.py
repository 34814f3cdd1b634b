"""Message ids of notifications that have no number (PZC00): which of them are in the tables.

Numbers are kept as ranges; ids have no order, so the last `REMEMBERED` of them are kept, 16 bytes each. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

REMEMBERED = 100_000
"""A copy of a row older than so many rows without a number is stored again."""

SIZE = 16


def digest_of(message_id: str) -> bytes:
    """What is kept of an id: `SIZE` bytes that no other one has."""
    return hashlib.blake2b(message_id.encode(), digest_size=SIZE).digest()


def each_of(joined: bytes) -> Iterator[bytes]:
    """Digests that stand one behind the other."""
    return (joined[at : at + SIZE] for at in range(0, len(joined), SIZE))


class KnownIds:
    """The last `REMEMBERED` digests that were added.

    Args:
        joined: one behind the other, oldest first.
    """

    def __init__(self, joined: bytes = b"") -> None:
        self._digests: dict[bytes, None] = {}
        self.add(joined)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, joined: bytes) -> None:
        """Remember digests, one behind the other."""
        for digest in each_of(joined):
            self._digests[digest] = None
        for digest in list(self._digests)[: max(0, len(self._digests) - REMEMBERED)]:
            del self._digests[digest]

    def flat(self) -> bytes:
        """All of them, one behind the other, oldest first."""
        return b"".join(self._digests)
