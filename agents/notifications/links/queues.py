"""Queue: what goes over one link, in order, and what its reader is not done with.

::

    message     event                              next
    -           put                                queued
    queued      next, the way takes it             sent, with the next link number
    sent        again, and the reader has not      to repeat
    to repeat   next                               sent, with the same number
    sent        acknowledged                       -
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ....delivery.acknowledgements import Unacknowledged
from ....protocol.bundle import Bundle, Item, Last
from ....shm.ring import Ring
from ....shm.views import INTRODUCED
from .published import Posted, Published
from .ways import Way

BUNDLE_ITEMS = 1000
"""Items that go together."""

LENT = 4 << 20
"""Bytes in blocks that wait for others of their burst: with more under way, a block has left the processor's
cache before it is written again."""

_OVERHEAD = 64  # bytes of an item beside its body


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


class Queue:
    """Not thread-safe: the lock of all outlets protects it.

    Args:
        ring: blocks of the publisher.

    Attributes:
        lent: bytes in blocks that wait to be sent for the first time.
    """

    def __init__(self, ring: Ring) -> None:
        self.lent = 0
        self._ring = ring
        self._queue: deque[Posted] = deque()
        self._again: deque[tuple[int, Posted]] = deque()
        self._undone: Unacknowledged[Posted] = Unacknowledged()
        self._reader = object()  # who has the descriptors: one connection of the reader
        self._introduced = 0  # whose descriptors it has

    def __len__(self) -> int:
        return len(self._queue) + len(self._again)

    @property
    def unacknowledged(self) -> int:
        """Messages that were sent and that the reader is not done with."""
        return len(self._undone)

    @property
    def sent(self) -> int:
        """The last link number."""
        return self._undone.next - 1

    @property
    def is_repeating(self) -> bool:
        """True while something goes for the second time."""
        return bool(self._again)

    def put(self, posted: Posted) -> None:
        """One message more."""
        self._queue.append(posted)
        if posted.block:
            self.lent += len(posted.published.body)

    def check(self, received: int) -> None:
        """Judge what a reader says that it has.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        self._undone.received(received)

    def again(self, received: int) -> None:
        """Another way, or another connection: what came after number ``received`` goes again.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        self._again = deque(self._undone.after(received))
        self._ring.gone(self._reader)
        self._reader, self._introduced = object(), 0

    def acknowledged(self, received: int, upto: int, others: Iterable[int]) -> list[Posted]:
        """What the reader is done with, and was not before.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        self._undone.received(received)
        return self._undone.acknowledged(upto, others)

    def next(self, way: Way) -> Batch | None:
        """What goes next over a way; None when nothing waits."""
        again, queue, blocks, limit = self._again, self._queue, way.blocks, way.limit
        first = again[0][0] if again else self._undone.next
        items: list[Item] = []
        contents: list[Published] = []
        size, lent, fd, hurry = 0, 0, -1, False
        while len(items) < BUNDLE_ITEMS and (again or queue):
            posted = again[0][1] if again else queue[0]
            published, block = posted.published, posted.block if blocks else 0
            size += _OVERHEAD + (0 if block else len(published.body))
            new = block > 0 and not self._ring.knows(self._reader, block)
            if items and (size > limit or (new and lent)):
                break
            if new:
                fd = self._introduce(block)
                lent = block = block if fd >= 0 else 0
            if again:
                again.popleft()
            else:
                queue.popleft()
                self._undone.sent(posted)
                if posted.block:
                    self.lent -= len(published.body)
            body, length = (b"", len(published.body)) if block else (published.body, 0)
            items.append(Item(
                published.topic, published.number, published.key, published.sent_ms, posted.lost,
                published.serializer, body, block, length,
            ))  # fmt: skip
            contents.append(published)
            if published.waited is not None:
                hurry = True
        if not items:
            return None
        return Batch(Bundle(first, items, [], lent, self._dropped(way), hurry), fd, contents)

    def alone(self, posted: Posted, way: Way) -> Bundle:
        """What goes at once when nothing waits: one message, whose body is not in a block."""
        published, first = posted.published, self._undone.next
        self._undone.sent(posted)
        item = Item(
            published.topic, published.number, published.key, published.sent_ms, posted.lost,
            published.serializer, published.body,
        )  # fmt: skip
        return Bundle(first, [item], [], 0, self._dropped(way))

    def sign(self, way: Way, lasts: list[Last]) -> Batch:
        """A bundle without items, as a sign of life."""
        return Batch(Bundle(self._undone.next, [], lasts, 0, self._dropped(way)), -1, [])

    def clear(self) -> list[Posted]:
        """Forget everything; returns what the reader was not done with, or never got."""
        for posted in self._queue:
            if posted.block:
                self._ring.end(posted.block, posted.leg.outlet.link)
        left = [*self._undone.all(), *self._queue]
        self._queue.clear()
        self.lent = 0
        self._again.clear()
        self._undone = Unacknowledged()
        self._ring.gone(self._reader)
        return left

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
