"""Lending: the blocks of one connection, those that this end lends and those that it has borrowed.

`pzc.shm.pool` tells who may use a block when. Notes of blocks given back, or let go of, wait here until
the next message takes them along.
"""

from __future__ import annotations

from collections import deque

from ..protocol.errors import PeerLost, RemoteProtocolError
from ..protocol.frames import Buffer
from ..shm.blocks import available
from ..shm.pool import Borrowed, Pool
from .descriptors import Descriptors
from .framing import INLINE, MAX_NOTES


class Lending:
    """What one end of a connection lends and borrows.

    Args:
        peer: whom error messages name.
        blocks: whether it lends any; it borrows what comes.

    Attributes:
        notes: that wait for a message; any thread may add some.
    """

    __slots__ = ("_borrowed", "_peer", "_pool", "notes")

    def __init__(self, peer: str, *, blocks: bool) -> None:
        self._peer = peer
        self.notes: deque[int] = deque()
        self._pool = Pool(self.notes) if blocks and available() else None
        self._borrowed = Borrowed(self.notes)

    def allocate(self, size: int) -> memoryview | None:
        """Memory of a block for a large content, when there is one."""
        return self._pool.allocate(size) if self._pool is not None and size > INLINE else None

    def holds(self, content: Buffer) -> bool:
        """True for a content in memory of `allocate`."""
        return self._pool is not None and self._pool.holds(content)

    def place(self, content: Buffer) -> tuple[int, int] | None:
        """Id and descriptor of the block of a content, -1 when the peer has it; None when there is none."""
        return None if self._pool is None else self._pool.place(content)

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
                elif self._pool is not None:
                    self._pool.give_back(note)
                else:
                    raise ValueError(f"block {note} is given back and was not lent")
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
            PeerLost: when it cannot be mapped here.
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
            raise PeerLost(text) from exc

    def close(self) -> None:
        """Let go of all; what is in use stays until it is not."""
        self._borrowed.close()
        if self._pool is not None:
            self._pool.close()
