"""Borrowed: the blocks of the other side of a connection, seen privately.

The reader keeps the descriptor and the mapping of each block until the writer lets go of it. What it tells
the writer are *notes*: the id of a block that is given back. They ride on the next message, as do those of
the writer, who tells of a block that was let go by minus its id.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from functools import partial

from .private import Private

SHARED_BLOCKS = 8
"""Blocks of one writer on one connection; so many messages can be held by its reader without a copy."""


COPIES = 16
"""Contents that are copied after a reader wrote to a view: its own pages cost ten times as much as a copy."""


class Borrowed:
    """The blocks of the other side of a connection; for the one thread that receives, except `returned`.

    Args:
        notes: where the writer is told what is given back.
    """

    def __init__(self, notes: deque[int]) -> None:
        self._notes = notes
        self._fds: dict[int, int] = {}
        self._seen: dict[int, Private] = {}
        self._copies = 0
        self._mapped: set[int] = set()

    def add(self, block_id: int, fd: int) -> None:
        """Keep the descriptor of a new block.

        Raises:
            ValueError: when the block is not new, or one too many; the descriptor stays the caller's.
        """
        if block_id in self._fds or len(self._fds) >= SHARED_BLOCKS:
            raise ValueError(f"descriptor of block {block_id} came twice, or over {SHARED_BLOCKS} are kept")
        self._fds[block_id] = fd

    def map(self, block_id: int, size: int) -> memoryview:
        """A message in a block, private and writable; the block is given back when that is gone.

        It is a view, or a copy where the reader lately wrote to views, which costs more than to copy.

        Raises:
            ValueError: for a block that is unknown, still in use here, or not what it should be.
            OSError: when it cannot be mapped here.
        """
        if block_id not in self._fds or block_id in self._mapped:
            raise ValueError(f"block {block_id} is unknown, or was written again before it was given back")
        seen = self._seen.get(block_id)
        if seen is None or not seen.renew():
            seen = self._seen[block_id] = Private(self._fds[block_id])
        elif seen.was_written:
            self._copies = COPIES
        self._mapped.add(block_id)
        if self._copies:
            self._copies -= 1
            with contextlib.suppress(MemoryError):
                copied = seen.copy(size)
                self._notes.append(block_id)
                return copied
        return seen.view(size, partial(self._notes.append, block_id))

    def returned(self, block_id: int) -> None:
        """The writer is being told that a block is given back."""
        self._mapped.discard(block_id)

    def drop(self, block_id: int) -> None:
        """The writer let go of a block.

        Raises:
            ValueError: when it is unknown or in use.
        """
        if block_id not in self._fds or block_id in self._mapped:
            raise ValueError(f"block {block_id} is let go and is unknown or in use")
        os.close(self._fds.pop(block_id))
        self._seen.pop(block_id, None)

    def close(self) -> None:
        """Close every descriptor; mapped messages stay."""
        self._seen.clear()
        with contextlib.suppress(KeyError):
            while True:
                os.close(self._fds.popitem()[1])
