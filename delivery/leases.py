"""Leases: who still needs a block of shared memory.

::

    block     event                                    next
    unknown   begin                                    WRITING
    FREE      begin                                    WRITING
              forget                                   unknown
    WRITING   publish(holders)                         LIVE
              publish(nobody)                          FREE
    LIVE      lend                                     LIVE
              end of the last holder                   FREE
              gone(holder)                             RETIRED
              gone(the last holder, reads=False)       FREE
    RETIRED   end, gone                                RETIRED
              forget                                   unknown

What a dead process held is retired: a view of it may be alive somewhere, so the block is never written
again, and its other holders keep theirs. A block that is *unknown* after it was retired must not come back
under its number. A lease ends once, by `end` or `gone`; whatever comes later for it is ignored.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable

from ..protocol.errors import LocalProtocolError


class BlockState(enum.Enum):
    """What may be done with a block."""

    FREE = "free"
    WRITING = "writing"
    LIVE = "live"
    RETIRED = "retired"


class LeaseLedger:
    """Keeps the holders of each block; see the table in the module's docstring.

    Not thread-safe: the ring's lock protects it. All bookkeeping is here, in the publisher's process: no
    reader can die while it has something locked.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, BlockState] = {}
        self._holders: dict[int, set[Hashable]] = {}
        self._held: dict[Hashable, dict[int, None]] = {}

    def state(self, block: int) -> BlockState | None:
        """The state of a block; None when it is unknown."""
        return self._blocks.get(block)

    def count(self, state: BlockState) -> int:
        """How many blocks are in a state."""
        return sum(each is state for each in self._blocks.values())

    def begin(self, block: int) -> None:
        """A new or free block is going to be written.

        Raises:
            LocalProtocolError: when somebody writes, reads or may read it.
        """
        state = self._blocks.get(block)
        if state is not None and state is not BlockState.FREE:
            raise self._impossible(block, "written")
        self._blocks[block] = BlockState.WRITING

    def publish(self, block: int, holders: Iterable[Hashable]) -> bool:
        """The block was written, and is lent to those who are to read it.

        Returns:
            Whether anybody holds it; if not, it is free.

        Raises:
            LocalProtocolError: when it was not being written.
        """
        if self._blocks.get(block) is not BlockState.WRITING:
            raise self._impossible(block, "published")
        lent = set(holders)
        if not lent:
            self._blocks[block] = BlockState.FREE
            return False
        self._blocks[block] = BlockState.LIVE
        self._holders[block] = lent
        for holder in lent:
            self._held.setdefault(holder, {})[block] = None
        return True

    def lend(self, block: int, holder: Hashable) -> None:
        """Lend a block to one more holder; nothing changes for one who has it.

        Raises:
            LocalProtocolError: when it does not live.
        """
        if self._blocks.get(block) is not BlockState.LIVE:
            raise self._impossible(block, "lent")
        self._holders[block].add(holder)
        self._held.setdefault(holder, {})[block] = None

    def end(self, block: int, holder: Hashable) -> bool:
        """A holder is done with a block; True when it is free now. A lease that had ended is ignored."""
        held = self._held.get(holder)
        if held is None or block not in held:
            return False
        del held[block]
        return self._release(block, holder)

    def gone(self, holder: Hashable, reads: bool = True) -> tuple[list[int], list[int]]:
        """A holder is dead: all its leases end. Each holder ends with this call, whatever it holds then.

        Args:
            holder: who held blocks.
            reads: whether a view of them may be alive. False only for one that surely has none.

        Returns:
            The blocks that are free now, and those that are retired now, oldest lease first.
        """
        freed: list[int] = []
        retired: list[int] = []
        for block in self._held.pop(holder, ()):
            if reads and self._blocks[block] is BlockState.LIVE:
                self._blocks[block] = BlockState.RETIRED
                retired.append(block)
            if self._release(block, holder):
                freed.append(block)
        return freed, retired

    def forget(self, block: int) -> None:
        """A free or retired block was closed; what is left of its leases ends.

        Raises:
            LocalProtocolError: when it is being written, or lives.
        """
        if self._blocks.get(block) in (BlockState.WRITING, BlockState.LIVE):
            raise self._impossible(block, "forgotten")
        for holder in self._holders.pop(block, ()):
            del self._held[holder][block]
        self._blocks.pop(block, None)

    def held_by(self, holder: Hashable) -> list[int]:
        """The blocks that a holder has, oldest lease first."""
        return list(self._held.get(holder, ()))

    def holders(self, block: int) -> frozenset[Hashable]:
        """Who has a block."""
        return frozenset(self._holders.get(block, ()))

    def _release(self, block: int, holder: Hashable) -> bool:
        """Take the holder off the block's list; True when the block is free now."""
        holders = self._holders[block]
        holders.remove(holder)
        if holders:
            return False
        del self._holders[block]
        if self._blocks[block] is BlockState.RETIRED:
            return False
        self._blocks[block] = BlockState.FREE
        return True

    def _impossible(self, block: int, what: str) -> LocalProtocolError:
        state = self._blocks.get(block)
        name = "unknown" if state is None else state.value
        return LocalProtocolError(f"block {block} cannot be {what}: it is {name}")
