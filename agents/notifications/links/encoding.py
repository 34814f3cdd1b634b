"""Encoding: a notification's content once for all its links, into shared memory when that helps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ....protocol import serializers
from ....protocol.codec import Codec
from ....protocol.errors import LocalProtocolError
from ....protocol.link_messages import Body
from ....protocol.signing import Suite
from ....protocol.weighing import ATOMS
from ....shm import machine
from ....shm.ring import Ring, Slot
from ....transport.counters import Counters
from ....transport.transport import plain_memory
from .published import Published
from .transports import UNIX_LIMIT

SIZED = frozenset({bytes, str})
"""Scalars that may be large."""

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
        frames_all: every content becomes ``buffers``, whatever its readers read.
        frames_arrays: large arrays become ``buffers``, when every reader reads that.
    """

    def __init__(self, codec: Codec, ring: Ring, counters: Counters, make_room: Callable[[], bool]) -> None:
        self._codec = codec
        self._ring = ring
        self._counters = counters
        self._make_room = make_room
        self._encode_scalar = serializers.ENCODE_SCALAR.get(codec.serializer)
        # What is to be encrypted does not lie in memory in clear.
        sealed = codec.keyring is not None and codec.suite is Suite.AES256_GCM
        self.shares = machine.MEMORY and not sealed
        self.frames_all = codec.serializer == "buffers"
        self.frames_arrays = self.frames_all or codec.serializer == "pickle"

    def encode(self, published: Published, *, blocks: bool, arrays: bool) -> None:
        """Give a notification its body.

        Args:
            published: that has none.
            blocks: some reader can read blocks.
            arrays: every reader reads ``buffers``.

        Raises:
            SerializeError: when the content cannot be expressed.
            LocalProtocolError: when it is too large.
        """
        content, encode = published.content, self._encode_scalar
        kind: object = type(content)  # pyright: ignore[reportUnknownVariableType]
        small = kind in ATOMS and not (kind in SIZED and len(content) > UNIX_LIMIT)
        if small and encode is not None:
            body = encode(content)
            if len(body) <= UNIX_LIMIT:
                published.serializer, published.body = self._codec.serializer, body
                return
        try:
            published.serializer, published.body = self._encoded(
                content, arrays, published if blocks and self.shares else None
            )
        except BaseException:
            self.give_back(published)
            raise

    def _encoded(self, content: object, arrays: bool, lies: Published | None) -> tuple[str, Body]:
        """Serializer and body; in a block where one may be had for ``lies``."""
        name = self._codec.serializer
        allocate = None if lies is None else partial(self.allocate, lies)
        if arrays and name == "pickle":
            name, body = serializers.encode_arrays(content, allocate)
        else:
            body = serializers.encode(name, content, allocate)
        if len(body) > self._codec.max_content - _FRAME:
            limit = self._codec.max_content - _FRAME
            raise LocalProtocolError(f"content has {len(body)} bytes, the limit is {limit}")
        if lies is not None and lies.slot is None and name != "buffers" and len(body) > UNIX_LIMIT:
            memory = self.allocate(lies, len(body))
            memory[: len(body)] = body
            return name, memoryview(memory)[: len(body)]  # the slot takes its own view away
        return name, body

    def copy(self, published: Published, arrays: bool) -> tuple[str, Body]:
        """Serializer and body for mailboxes, in no block: it would stay there as long as a mailbox has it.

        Args:
            published: that may have its body already.
            arrays: every reader reads ``buffers``.

        Raises:
            SerializeError: when the content cannot be expressed.
            LocalProtocolError: when it is too large.
        """
        if not published.serializer:
            self.encode(published, blocks=False, arrays=arrays)
        name, body = published.serializer, published.body
        if arrays or name != "buffers":
            return name, body if published.slot is None else bytes(body)
        return self.anew(published)

    def anew(self, published: Published) -> tuple[str, Body]:
        """Serializer and body for who reads no ``buffers``, in no block; errors as `copy`."""
        return self._encoded(published.content, False, None)

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
