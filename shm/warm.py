"""Warm blocks: how large they are made, and which free ones are not worth keeping.

To write into pages that were written before costs a tenth of what fresh ones cost; so a free block is kept
for a while, and the one that was used last is used next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from .blocks import Block

KEPT = 3
"""Free blocks of a publisher that are kept however large they are: those used last take turns.

One is written while a loop's variable still shows the one before, and a reader is late with a third.
"""

LATELY = 1000
"""Allocations after which a free block is let go: a new one is dear, and readers are late in bursts."""

LEAST = 1 << 16
"""Bytes of the smallest block, of which all others are multiples."""


class Kept(Protocol):
    """A block, and how many leases there had been when it was used last."""

    block: Block
    turn: int


K = TypeVar("K", bound=Kept)


def rounded(size: int) -> int:
    """Bytes of a new block for a content of ``size`` bytes."""
    return -(-size // LEAST) * LEAST


def surplus(free: Sequence[K], turn: int, max_bytes: int, kept: int, lately: int) -> list[K]:
    """Those of the free ones, the one longest unused coming first, that are not worth keeping.

    Args:
        free: blocks that nobody uses.
        turn: how many allocations there have been.
        max_bytes: of all that are kept.
        kept: how many of those used last are kept however large they are; the last one however long.
        lately: allocations without it after which one is let go.
    """
    excess = sum(each.block.size for each in free) - max_bytes
    found: list[K] = []
    for left, each in zip(range(len(free) - 1, -1, -1), free, strict=True):
        if (excess > 0 and left >= kept) or (turn - each.turn > lately and (left or not kept)):
            excess -= each.block.size
            found.append(each)
    return found
