"""Packing: what is ready for a reader, as bundles for its way, and the descriptors of blocks that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....delivery.claims import Loss
from ....delivery.send_queue import SendQueue
from ....protocol.bundle import Bundle, Item, Last
from ....shm.ring import Ring
from ....shm.views import INTRODUCED
from .published import Published
from .ways import Way

BUNDLE_ITEMS = 1000
"""Items that go together."""


class Batch(NamedTuple):
    """What goes at once.

    Attributes:
        bundle: for the reader.
        fd: descriptor that goes with it, to be closed by whoever sends; -1 for none.
        contents: the notifications of its items.
    """

    bundle: Bundle
    fd: int
    contents: list[Published]


class Packing:
    """Not thread-safe: the lock of all outlets protects it.

    Args:
        queue: of the reader.
        ring: blocks of the publisher.
    """

    def __init__(self, queue: SendQueue[Published], ring: Ring) -> None:
        self._queue = queue
        self._ring = ring
        self._reader = object()  # who has the descriptors: one connection of the reader
        self._introduced = 0  # whose descriptors it has

    def begin(self) -> None:
        """Another way, or another connection: the reader has no descriptors."""
        self._ring.gone(self._reader)
        self._reader, self._introduced = object(), 0

    def next(self, way: Way) -> Batch | None:
        """What goes next over a way; None when nothing is ready."""
        blocks = way.blocks
        entries = self._queue.take(BUNDLE_ITEMS, way.limit, blocks)
        if not entries:
            return None
        items: list[Item] = []
        contents: list[Published] = []
        lent, fd, hurry = 0, -1, False
        for entry in entries:
            published = entry.message
            body, block, size = published.body, 0, 0
            if entry.leased and blocks and published.slot is not None:
                block = published.slot.block
                if not self._ring.knows(self._reader, block):
                    if lent:  # one descriptor goes with a bundle
                        self._queue.later(entries[len(items) :])
                        break
                    fd = self._introduce(block)
                    lent = block = block if fd >= 0 else 0
                if block:
                    body, size = b"", entry.size
            items.append(Item(
                published.topic, published.number, published.key, published.sent_ms,
                sum([loss.lost for loss in entry.lost]) if entry.lost else 0,
                published.serializer, body, block, size,
            ))  # fmt: skip
            contents.append(published)
            if published.waited is not None:
                hurry = True
        return Batch(Bundle(entries[0].position, items, [], lent, self._dropped(way), hurry), fd, contents)

    def sign(self, way: Way, losses: Sequence[Loss]) -> Batch:
        """A bundle without items, as a sign of life."""
        lasts = [Last(loss.interest.topic, loss.last, loss.lost) for loss in losses]
        return Batch(Bundle(self._queue.sent + 1, [], lasts, 0, self._dropped(way)), -1, [])

    def close(self) -> None:
        """The link is over."""
        self._ring.gone(self._reader)

    def _introduce(self, block: int) -> int:
        """A descriptor of a block to send; -1 when none can be had, and the content goes inline."""
        if self._introduced >= INTRODUCED:
            return -1
        try:
            fd = self._ring.descriptor(block)
        except OSError:
            return -1
        if fd >= 0:
            self._ring.introduced(self._reader, block)
            self._introduced += 1
        return fd

    def _dropped(self, way: Way) -> list[int]:
        if not way.blocks:
            return []
        dropped = self._ring.take_dropped(self._reader)
        self._introduced -= len(dropped)
        return dropped
