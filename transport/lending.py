"""Lending: the blocks of one connection, those that this end lends and those that it has borrowed.

What is lent are blocks of a `Ring` with the peer as its one holder; memory that was allocated here is sent
as it is. Notes of blocks given back, or let go of, wait here until the next message takes them along.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from ..protocol.errors import RemoteProtocolError
from ..protocol.frames import Buffer
from ..protocol.lazily import np
from ..shm import machine
from ..shm.blocks import address_of
from ..shm.borrowed import SHARED_BLOCKS, Borrowed
from ..shm.gone import when_gone
from ..shm.ring import Ring, Slot
from .descriptors import Descriptors, Starved
from .framing import INLINE, MAX_NOTES

_SHARED_BYTES = 512 << 20
"""Bytes of all blocks of one writer on one connection."""


LATELY = 64
"""Contents after which a block that was not used is let go: a connection has seldom many large ones."""

_PEER = "peer"


class Lending:
    """What one end of a connection lends and borrows.

    Args:
        peer: whom error messages name.
        blocks: whether it lends any; it borrows what comes.

    Attributes:
        notes: that wait for a message; any thread may add some.
    """

    __slots__ = ("_borrowed", "_lent", "_peer", "_ring", "_writing", "notes")

    def __init__(self, peer: str, *, blocks: bool) -> None:
        self._peer = peer
        self.notes: deque[int] = deque()
        most, size = SHARED_BLOCKS, _SHARED_BYTES
        self._ring = Ring(most, size, kept=0, lately=LATELY) if blocks and most and machine.MEMORY else None
        self._writing: dict[
            int, Slot
        ] = {}  # by address, as long as somebody sees them and they were not sent
        self._lent: set[int] = set()
        self._borrowed = Borrowed(self.notes)

    def allocate(self, size: int) -> memoryview | None:
        """Memory of a block for a large content, when there is one; it is in use as long as a view is."""
        slot = None if self._ring is None or size <= INLINE else self._ring.allocate(size)
        if slot is None:
            return None
        seen = np.frombuffer(slot.buffer, np.uint8)
        self._writing[slot.address] = slot
        when_gone(seen, partial(self._writing.pop, slot.address, None))
        return seen.data

    def holds(self, content: Buffer) -> bool:
        """True for a content in memory of `allocate` that was not sent yet."""
        return self._ring is not None and address_of(content) in self._writing

    def place(self, content: Buffer) -> tuple[int, int] | None:
        """Have a content in a block that the peer may see: where it is, or else copied.

        Returns:
            The block's id, and its descriptor when the peer has not got it yet, else -1. None when there is
            none.
        """
        ring = self._ring
        if ring is None:
            return None
        slot = self._writing.pop(address_of(content), None)
        if slot is None:
            slot = ring.allocate(memoryview(content).nbytes)
            if slot is None:
                return None
            slot.buffer[:] = memoryview(content).cast("B")
        fd = -1 if ring.knows(_PEER, slot.block) else slot.fd
        ring.introduced(_PEER, slot.block)
        ring.publish(slot, (_PEER,))
        self._lent.add(slot.block)
        self._tell_dropped(ring)
        return slot.block, fd

    def _tell_dropped(self, ring: Ring) -> None:
        self.notes.extend(-block for block in ring.take_dropped(_PEER))

    def _take_back(self, block: int) -> None:
        if self._ring is None or block not in self._lent:
            raise ValueError(f"block {block} is given back and was not lent")
        self._lent.discard(block)
        self._ring.end(block, _PEER)
        self._tell_dropped(self._ring)

    def take_notes(self) -> list[int]:
        """Notes for one message."""
        notes: list[int] = []
        while self.notes and len(notes) < MAX_NOTES:
            note = self.notes.popleft()
            self._borrowed.returned(note)
            notes.append(note)
        return notes

    def heed(self, notes: tuple[int, ...]) -> None:
        """What the peer gave back, and let go of.

        Raises:
            RemoteProtocolError: for what was not lent.
        """
        try:
            for note in notes:
                if note < 0:
                    self._borrowed.drop(-note)
                else:
                    self._take_back(note)
        except ValueError as exc:
            raise RemoteProtocolError(f"{self._peer}: {exc}") from None

    def content_of(self, block_id: int, size: int, fds: Descriptors | None) -> memoryview:
        """A content that lies in a block of the peer.

        Args:
            block_id: of the block.
            size: of the content, in bytes.
            fds: has the block's descriptor, when that is new here.

        Raises:
            RemoteProtocolError: when the block cannot be that.
            Starved: when it cannot be mapped here.
        """
        try:
            if fds is not None:
                if not fds:
                    raise ValueError(f"the descriptor of block {block_id} did not come")
                self._borrowed.add(block_id, fds[0])
                fds.popleft()
            return self._borrowed.map(block_id, size)
        except ValueError as exc:
            raise RemoteProtocolError(f"{self._peer}: {exc}") from None
        except OSError as exc:
            text = (
                f"{self._peer} was given up, because a content of {size} bytes cannot be mapped here: {exc}"
            )
            raise Starved(text) from exc

    def close(self) -> None:
        """Let go of all; what is in use stays until it is not."""
        self._borrowed.close()
        self._writing.clear()
        if self._ring is not None:
            self._ring.close()
