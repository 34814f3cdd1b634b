"""Encoding: a notification's content once for all its readers, into shared memory when that helps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ....protocol.buffers import Allocate
from ....protocol.codec import Codec
from ....protocol.errors import LocalProtocolError
from ....protocol.link_messages import Body
from ....protocol.signing import Suite
from ....shm import machine
from ....shm.ring import Ring, Slot
from ....transport.counters import Counters
from ....transport.transport import plain_memory
from .published import Published
from .transports import UNIX_LIMIT

_FRAME = 1 << 16  # bytes of a bundle beside its largest content, far more than enough


class Encoding:
    """The serializer of one publisher and its ring.

    Args:
        codec: whose serializer, limits and suite count.
        ring: blocks of the publisher.
        counters: where refused memory is counted.
        make_room: drops a message that a lossy reader could not take yet, for its block; False for none.

    Attributes:
        shares: contents may lie in shared memory.
    """

    def __init__(self, codec: Codec, ring: Ring, counters: Counters, make_room: Callable[[], bool]) -> None:
        self._codec = codec
        self._ring = ring
        self._counters = counters
        self._make_room = make_room
        # What is to be encrypted does not lie in memory in clear.
        sealed = codec.keyring is not None and codec.suite is Suite.AES256_GCM
        self.shares = machine.MEMORY and not sealed

    def encode(self, published: Published, *, blocks: bool) -> None:
        """Give a notification its body.

        Args:
            published: that has none.
            blocks: some reader can read blocks.

        Raises:
            SerializeError: when the content cannot be expressed.
            LocalProtocolError: when it is too large.
        """
        lies = published if blocks and self.shares else None
        try:
            name, body = self._packed(
                published.content, None if lies is None else partial(self.allocate, lies)
            )
            if lies is not None and lies.slot is None and len(body) > UNIX_LIMIT and name != "arrays":
                memory = self.allocate(lies, len(body))
                memory[: len(body)] = body
                body = memoryview(memory)[: len(body)]  # the slot takes its own view away
            published.serializer, published.body = name, body
        except BaseException:
            self.give_back(published)
            raise

    def _packed(self, content: object, allocate: Allocate | None) -> tuple[str, Body]:
        name, body = self._codec.pack_notification(content, allocate)
        if len(body) > self._codec.max_content - _FRAME:
            limit = self._codec.max_content - _FRAME
            raise LocalProtocolError(f"content has {len(body)} bytes, the limit is {limit}")
        return name, body

    def copy(self, published: Published) -> tuple[str, Body]:
        """Serializer and body outside of blocks, for mailboxes, which may keep it long; errors as `encode`.

        Args:
            published: that may have its body already.
        """
        if not published.serializer:
            self.encode(published, blocks=False)
        body = published.body
        return published.serializer, body if published.slot is None else bytes(body)

    def allocate(self, published: Published, size: int) -> bytearray | memoryview:
        """Writable memory for a content: a block that readers will see, where there is one and it helps."""
        if size <= UNIX_LIMIT or published.slot is not None:
            return plain_memory(size)
        slot = published.slot = self._ring.allocate(size) or self._another(size)
        return plain_memory(size) if slot is None else slot.buffer

    def _another(self, size: int) -> Slot | None:
        """A slot in the place of something else; None, and counted, when there is none."""
        slot = None
        while slot is None and self._ring.full and self._make_room():
            slot = self._ring.allocate(size)
        if slot is None:
            self._counters.add("shm_refused")
        return slot

    def give_back(self, published: Published) -> None:
        """A notification is not published after all."""
        if published.slot is not None:
            self._ring.abandon(published.slot)
            published.slot, published.body, published.serializer = None, b"", ""
