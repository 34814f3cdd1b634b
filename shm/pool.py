"""Who may use a block when: the two sides of one connection.

`Pool` is the writer's side. A block is written again only when the reader has given it back and no view
of it is left on this side either, so that no view ever changes under its holder::

    state    event            next     what happens
    -        lease, no fit    ours     a block is created
    free     lease            ours     a warm one is used: cold pages cost ten times as much to write
    ours     views gone       free     it was never sent
    ours     placed           both     sent as it is
    both     views gone       theirs
    both     given back       ours
    theirs   given back       free
    free     not used lately  -        let go; the reader is told
    any      close            -        let go

`Borrowed` is the reader's side. It keeps the descriptor and the mapping of each block until the writer lets
go of it. What the sides have to tell each other are *notes*: the id of a block
that is given back, and minus the id of one that was let go. They ride on the next message.
"""

from __future__ import annotations

import contextlib
import enum
import os
import threading
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

from ..protocol import limits
from ..protocol.lazily import Lazily
from . import warm
from .blocks import Block, address_of
from .private import Private

if TYPE_CHECKING:
    import numpy as np
else:
    np = Lazily("numpy")

COPIES = 16
"""Contents that are copied after a reader wrote to a view: its own pages cost ten times as much as a copy."""

LATELY = warm.LATELY


class _State(enum.Enum):
    FREE = 0
    OURS = 1
    THEIRS = 2
    BOTH = 3


class _Entry:
    """A block, who holds it, when it was last leased, and whether the reader has its descriptor."""

    __slots__ = ("block", "block_id", "known", "state", "turn")

    def __init__(self, block_id: int, block: Block) -> None:
        self.block_id = block_id
        self.block = block
        self.state = _State.OURS
        self.turn = 0
        self.known = False


class Pool:
    """The blocks that one side of a connection writes; safe from any thread.

    Args:
        notes: where the reader is told what was let go.
    """

    def __init__(self, notes: deque[int]) -> None:
        self._notes = notes
        self._entries: dict[int, _Entry] = {}
        self._at: dict[int, _Entry] = {}
        self._forsaken: deque[int] = deque()  # filled by finalizers, which may take no lock
        self._lock = threading.Lock()
        self._last_id = 0
        self._turn = 0
        self._closed = False

    def allocate(self, size: int) -> memoryview | None:
        """A writable view of ``size`` bytes of a block, for `place`; None when a bound is reached.

        The block counts as used until the last view of this memory is gone.
        """
        with self._lock:
            entry = self._lease(size)
            if entry is None:
                return None
            lent = np.frombuffer(entry.block.buffer, np.uint8, size)
        weakref.finalize(lent, self._forsaken.append, entry.block_id).atexit = False
        return memoryview(cast(bytearray, lent))  # numpy's stubs know buffers from Python 3.12 on

    def holds(self, content: bytes | bytearray | memoryview) -> bool:
        """True for memory of `allocate` that `place` will not copy."""
        with self._lock:
            entry = self._at.get(address_of(content))
            return entry is not None and entry.state is _State.OURS

    def place(self, content: bytes | bytearray | memoryview) -> tuple[int, int] | None:
        """Have content in a block that the reader may see: where it is, or else copied.

        Returns:
            The block's id, and its descriptor when the reader has not got it yet, else -1. None when a
            bound is reached.
        """
        with self._lock:
            self._settle()
            entry = self._at.get(address_of(content))
            if entry is not None and entry.state is _State.OURS:
                entry.state = _State.BOTH
            else:
                size = memoryview(content).nbytes
                entry = self._lease(size)
                if entry is None:
                    return None
                entry.block.buffer[:size] = content
                entry.state = _State.THEIRS
            fd, entry.known = -1 if entry.known else entry.block.fd, True
            return entry.block_id, fd

    def give_back(self, block_id: int) -> None:
        """The reader is done with a block.

        Raises:
            ValueError: when it does not have it.
        """
        with self._lock:
            entry = self._entries.get(block_id)
            if entry is None or entry.state not in (_State.THEIRS, _State.BOTH):
                raise ValueError(f"block {block_id} is given back and was not lent")
            entry.state = _State.OURS if entry.state is _State.BOTH else _State.FREE
            self._trim()

    def close(self) -> None:
        """Let go of every block; views that are left keep their memory."""
        with self._lock:
            self._closed = True
            for entry in list(self._entries.values()):
                self._let_go(entry)

    def _lease(self, size: int) -> _Entry | None:
        self._settle()
        self._turn += 1
        entry = warm.warmest(reversed(self._free()), size) or self._create(size)
        if entry is not None:
            entry.state, entry.turn = _State.OURS, self._turn
        self._trim()
        return entry

    def _create(self, size: int) -> _Entry | None:
        size = warm.rounded(size)
        for oldest in self._free():
            if self._has_room(size):
                break
            self._let_go(oldest)
        if self._closed or not self._has_room(size):
            return None
        try:
            block = Block.create(size)
        except OSError:  # memory or descriptors are scarce: hold on to none that is not needed
            for entry in self._free():
                self._let_go(entry)
            return None
        self._last_id += 1
        entry = _Entry(self._last_id, block)
        self._entries[entry.block_id] = self._at[block.address] = entry
        return entry

    def _has_room(self, size: int) -> bool:
        total = sum(entry.block.size for entry in self._entries.values())
        return (
            len(self._entries) < limits.current.shared_blocks and total + size <= limits.current.shared_bytes
        )

    def _free(self) -> list[_Entry]:
        """Free entries, the one longest unused first."""
        free = [entry for entry in self._entries.values() if entry.state is _State.FREE]
        return sorted(free, key=lambda entry: entry.turn)

    def _settle(self) -> None:
        while self._forsaken:
            entry = self._entries.get(self._forsaken.popleft())
            if entry is not None:
                entry.state = _State.THEIRS if entry.state is _State.BOTH else _State.FREE

    def _trim(self) -> None:
        for entry in warm.surplus(self._free(), self._turn, limits.current.free_bytes):
            self._let_go(entry)

    def _let_go(self, entry: _Entry) -> None:
        del self._entries[entry.block_id], self._at[entry.block.address]
        entry.block.close()
        if entry.known:
            self._notes.append(-entry.block_id)


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
        if block_id in self._fds or len(self._fds) >= limits.current.shared_blocks:
            raise ValueError(
                f"descriptor of block {block_id} came twice, or over {limits.current.shared_blocks} are kept"
            )
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
