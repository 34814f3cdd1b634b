"""Warm blocks: which free one is used next, and which are not worth keeping.

To write into pages that were written before costs a tenth of what fresh ones cost; so a free block is kept
for a while, and the one that was used last is used next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from .blocks import Block

LATELY = 64
"""A free block is let go when it was not used for so many leases."""

KEPT = 3
"""Free blocks of a publisher that are kept however large they are: those used last take turns.

One is written while a loop's variable still shows the one before, and a reader is late with a third.
"""

_ROUNDED = 1 << 16


class Kept(Protocol):
    """A block, and how many leases there had been when it was used last."""

    block: Block
    turn: int


K = TypeVar("K", bound=Kept)


def rounded(size: int) -> int:
    """Bytes of a new block for a content of ``size`` bytes."""
    return -(-size // _ROUNDED) * _ROUNDED


def warmest(free: Iterable[K], size: int) -> K | None:
    """The first of the free ones, the one used last coming first, that has room and wastes little."""
    largest = max(4 * size, _ROUNDED)
    return next((kept for kept in free if size <= kept.block.size <= largest), None)


def surplus(free: Sequence[K], turn: int, max_bytes: int, lately: int = LATELY) -> list[K]:
    """Those of the free ones, the one longest unused coming first, that are not worth keeping.

    Args:
        free: blocks that nobody uses.
        turn: how many leases there have been.
        max_bytes: of all that are kept.
        lately: leases without it after which one is let go.
    """
    excess = sum(kept.block.size for kept in free) - max_bytes
    found: list[K] = []
    for kept in free:
        if excess > 0 or turn - kept.turn > lately:
            excess -= kept.block.size
            found.append(kept)
    return found
