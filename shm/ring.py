"""Ring: the blocks of one publisher, and who still needs them.

All bookkeeping is here, in the publisher: nothing in shared memory can be held by a reader that died::

    state    event                            next     what happens
    -        allocate, no warm one fits       WRITING  a block is created
    FREE     allocate                         WRITING  the warmest that fits is used
    WRITING  publish to holders               LIVE     each has a lease; the slot's buffer is taken away
    WRITING  publish to nobody, abandon       FREE
    WRITING  its slot and views forgotten     FREE     with the next allocate
    LIVE     end of the last lease            FREE
    LIVE     gone: a holder died              RETIRED  it may have views for ever: never written again
    RETIRED  end of the last lease            -        let go
    FREE     too many                         -        let go; who has the descriptor is told

A free block of which a view of its former writer is left is not written again before that is gone; when
its place is needed it is let go instead.

To write into pages that were written before costs a tenth of what fresh ones cost; so a free block is kept
for a while, and the one that was used last is used next.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Hashable, Iterable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from ..protocol.lazily import Lazily
from .blocks import Block

_FREE_BYTES = 128 << 20
"""Bytes of blocks that one writer keeps although nobody uses them."""


if TYPE_CHECKING:
    import numpy as np
else:
    np = Lazily("numpy")

BUFFERS = 32
"""Blocks of a publisher unless it is told otherwise."""

MAX_BYTES = 1 << 30
"""Bytes of all blocks of a publisher."""

KEPT = 3
"""Free blocks of a publisher that are kept however large they are: those used last take turns.

One is written while a loop's variable still shows the one before, and a reader is late with a third.
"""

LEAST = 1 << 16
"""Bytes of the smallest block, of which all others are multiples."""

_NOTHING = memoryview(b"")


class Slot:
    """A block that is being written; see `Ring.allocate`.

    Attributes:
        block: its id, from 1, never used twice.
        size: bytes of the content.
        fd: descriptor of the block, the ring's; valid while it is written or leased.
        buffer: writable, ``size`` bytes; released when the slot is published or abandoned.
    """

    __slots__ = ("_open", "block", "buffer", "fd", "size")

    def __init__(self, entry: _Entry, size: int) -> None:
        self.block = entry.block_id
        self.size = size
        self.fd = entry.block.fd
        self.buffer = memoryview(entry.lent)[:size]
        self._open = True

    def take_away(self) -> bool:
        """Take the buffer away from whoever wrote it; False when that was done before."""
        if not self._open:
            return False
        self._open = False
        buffer, self.buffer = self.buffer, _NOTHING
        try:
            buffer.release()
        except BufferError:
            return True  # an array was made of it, which the ring looks after
        return True


class _Entry:
    """A block, who holds it, who has its descriptor, what its writer may still see."""

    __slots__ = ("_unseen", "block", "block_id", "holders", "known", "lent", "retired")

    def __init__(self, block_id: int, block: Block) -> None:
        self.block_id = block_id
        self.block = block
        self.holders: set[Hashable] = set()
        self.known: set[Hashable] = set()
        self.lent: Any = np.frombuffer(block.buffer, np.uint8)
        self.retired = False
        self._unseen = self._references()  # which nothing but this attribute may be by now

    def _references(self) -> int:
        return getrefcount(self.lent)

    def is_seen(self) -> bool:
        """Whether its writer sees it, or anything that was made of its buffer: each keeps the array."""
        return self._references() > self._unseen


class Ring:
    """The blocks that a publisher writes; safe from any thread, and no lock is held while one is created.

    Args:
        buffers: blocks that may be written or leased at once.
        max_bytes: of all blocks together.

    Attributes:
        lossy: more blocks, for readers that nobody waits for.
        full: why the last `allocate` gave none: True when it may once a slot is free, False when the
            memory was refused.
        refused: how often memory was refused.
    """

    def __init__(
        self,
        buffers: int = BUFFERS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        if buffers < 1:
            raise ValueError(f"a ring has at least one buffer, not {buffers}")
        self.buffers = buffers
        self.lossy = 0
        self.full = False
        self.refused = self._retired = 0
        self._max_bytes = max_bytes
        self._entries: dict[int, _Entry] = {}
        self._free: dict[int, _Entry] = {}  # the one that was given back last comes last
        self._free_bytes = 0
        self._writing: dict[int, _Entry] = {}
        self._dropped: dict[Hashable, list[int]] = {}
        self._lock = threading.Lock()
        self._blocks = self._bytes = 0  # those being created count
        self._last_id = 0
        self._closed = False

    def allocate(self, size: int) -> Slot | None:
        """A slot for a content of ``size`` bytes, whose memory may hold anything; None: see ``full``.

        Raises:
            ValueError: for less than one byte.
        """
        if size < 1:
            raise ValueError(f"a slot has at least one byte, not {size}")
        with self._lock:
            if self._writing:
                self._collect()
            largest = max(4 * size, LEAST)
            for entry in reversed(self._free.values()):
                # It has room, wastes little, and no writer still sees it.
                if size <= entry.block.size <= largest and not entry.is_seen():
                    del self._free[entry.block_id]
                    self._free_bytes -= entry.block.size
                    self._writing[entry.block_id] = entry
                    return Slot(entry, size)
            if not self._reserve(_rounded(size)):
                return None
        return self._create(size)

    def publish(self, slot: Slot, holders: Iterable[Hashable]) -> None:
        """Lend a slot that was written to each of the holders, at least until their `end`.

        Raises:
            ValueError: when it was published or abandoned before.
        """
        if not slot.take_away():
            raise ValueError(f"the slot of block {slot.block} was published or abandoned before")
        with self._lock:
            entry = self._entries.get(slot.block)
            if entry is None:
                return
            self._writing.pop(slot.block, None)
            entry.holders.update(holders)
            if not entry.holders:
                self._settle(entry)

    def abandon(self, slot: Slot) -> None:
        """Give back a slot that is not published; one that was is left alone."""
        if slot.take_away():
            with self._lock:
                entry = self._entries.get(slot.block)
                if entry is not None:
                    self._writing.pop(slot.block, None)
                    self._settle(entry)

    def end(self, block: int, holder: Hashable) -> None:
        """A holder does not need a block any longer; nothing when it did not hold it."""
        with self._lock:
            entry = self._entries.get(block)
            if entry is not None and holder in entry.holders:
                entry.holders.discard(holder)
                if not entry.holders:
                    self._settle(entry)

    def gone(self, holder: Hashable) -> list[int]:
        """A holder died: what it held is never written again, and closed once nobody else holds it.

        Returns:
            Ids of the blocks that are retired by this.
        """
        retired: list[int] = []
        with self._lock:
            self._dropped.pop(holder, None)
            for entry in list(self._entries.values()):
                entry.known.discard(holder)
                if holder in entry.holders:
                    entry.holders.discard(holder)
                    entry.retired = True
                    retired.append(entry.block_id)
                    self._settle(entry)
            self._retired += len(retired)
        return retired

    def knows(self, holder: Hashable, block: int) -> bool:
        """True when a holder has the descriptor of a block."""
        entry = self._entries.get(block)
        return entry is not None and holder in entry.known

    def introduced(self, holder: Hashable, block: int) -> None:
        """A holder has been sent the descriptor of a block."""
        with self._lock:
            entry = self._entries.get(block)
            if entry is not None:
                entry.known.add(holder)
            else:
                self._dropped.setdefault(holder, []).append(block)

    def descriptor(self, block: int) -> int:
        """A duplicate of a block's descriptor, for the caller to close; -1 when it was let go.

        Raises:
            OSError: when no more can be opened.
        """
        with self._lock:
            entry = self._entries.get(block)
            return -1 if entry is None else os.dup(entry.block.fd)

    def take_dropped(self, holder: Hashable) -> list[int]:
        """Blocks let go of whose descriptor the holder has, each told once."""
        if holder not in self._dropped:
            return []
        with self._lock:
            return self._dropped.pop(holder, [])

    def statistics(self) -> dict[str, int]:
        """Counts: ``blocks`` and their ``bytes``, those ``used``; ``refused``, ``retired`` so far."""
        with self._lock:
            return {
                "blocks": self._blocks,
                "bytes": self._bytes,
                "used": self._blocks - len(self._free),
                "refused": self.refused,
                "retired": self._retired,
            }

    def leases(self) -> Counter[Hashable]:
        """How many blocks each holder holds."""
        with self._lock:
            return Counter(holder for entry in self._entries.values() for holder in entry.holders)

    def close(self) -> None:
        """Let go of every block; readers keep what they see, and there are no slots any longer."""
        with self._lock:
            self._closed = True
            for entry in list(self._entries.values()):
                self._let_go(entry)
            self._dropped.clear()

    def _collect(self) -> None:
        for entry in list(self._writing.values()):
            if not entry.is_seen():
                del self._writing[entry.block_id]
                self._settle(entry)

    def _reserve(self, size: int) -> bool:
        """Make room for a block, and count it."""
        self.full = not self._closed and size <= self._max_bytes
        if not self.full:
            self.refused += not self._closed
            return False
        # Those that their writer still sees are of no use yet.
        for entry in sorted(self._free.values(), key=lambda entry: not entry.is_seen()):
            if self._has_room(size):
                break
            self._let_go(entry)
        if not self._has_room(size):
            return False
        self._count(1, size)
        return True

    def _has_room(self, size: int) -> bool:
        return self._blocks < self.buffers + self.lossy and self._bytes + size <= self._max_bytes

    def _create(self, size: int) -> Slot | None:
        """A slot in a new block, for which there is room."""
        block, reserved = None, _rounded(size)
        try:
            block = self._made(reserved) or self._made(reserved)
        finally:
            slot = self._enter(block, size, reserved)
        return slot

    def _enter(self, block: Block | None, size: int, reserved: int) -> Slot | None:
        with self._lock:
            if block is not None and not self._closed:
                self._last_id += 1
                entry = self._entries[self._last_id] = _Entry(self._last_id, block)
                self._writing[entry.block_id] = entry
                return Slot(entry, size)
            self._count(-1, -reserved)
            self.full = False
            if block is None:
                self.refused += 1
            else:
                block.close()
            return None

    def _made(self, size: int) -> Block | None:
        """A block; None when memory or descriptors are scarce: then none is held that is not needed."""
        try:
            return Block.create(size)
        except OSError:
            with self._lock:
                for entry in list(self._free.values()):
                    self._let_go(entry)
            return None

    def _settle(self, entry: _Entry) -> None:
        """Free an entry if nobody holds or writes it any longer."""
        if entry.holders or entry.block_id in self._writing:
            return
        if entry.retired:
            self._let_go(entry)
            return
        self._free[entry.block_id] = entry
        self._free_bytes += entry.block.size
        while self._free_bytes > _FREE_BYTES and len(self._free) > KEPT:
            self._let_go(next(iter(self._free.values())))

    def _let_go(self, entry: _Entry) -> None:
        del self._entries[entry.block_id]
        if self._free.pop(entry.block_id, None) is not None:
            self._free_bytes -= entry.block.size
        self._writing.pop(entry.block_id, None)
        self._count(-1, -entry.block.size)
        entry.lent = None
        entry.block.close()
        for holder in entry.known:
            self._dropped.setdefault(holder, []).append(entry.block_id)

    def _count(self, blocks: int, size: int) -> None:
        self._blocks, self._bytes = self._blocks + blocks, self._bytes + size


def _rounded(size: int) -> int:
    """Bytes of a new block for a content of ``size`` bytes."""
    return -(-size // LEAST) * LEAST
