"""Views of somebody else's blocks, read-only; each lasts as long as anything made of it.

A block is mapped once, when its descriptor comes, and its pages are looked up once; a view of it costs
microseconds, whatever its size. The mapping goes with the last of its views, after `Mapped.drop`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..protocol.lazily import Lazily
from .blocks import capacity
from .gone import when_gone

if TYPE_CHECKING:
    import numpy as np
else:
    np = Lazily("numpy")

INTRODUCED = 256
"""Blocks whose descriptors a publisher lets one reader have at once; contents in others go inline."""

MAX_MAPPED = 2 * INTRODUCED
"""Blocks, and so descriptors, of one publisher that are mapped at once: some wait to be dropped."""


class Mapped:
    """The blocks of one publisher; safe from any thread, because it does one thing at a time to a dict.

    Args:
        max_blocks: that are mapped at once.
    """

    def __init__(self, max_blocks: int = MAX_MAPPED) -> None:
        self._max_blocks = max_blocks
        self._mappings: dict[int, mmap.mmap] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._mappings)

    def add(self, block: int, fd: int) -> None:
        """Map a block; the descriptor is taken over, and closed here whatever happens.

        Raises:
            ValueError: when the block is not new, or one too many, or of no sealed and reserved memory.
            OSError: when it cannot be mapped here.
        """
        try:
            if block in self._mappings or len(self._mappings) >= self._max_blocks or self._closed:
                raise ValueError(f"block {block} came twice, or over {self._max_blocks} are mapped")
            size = capacity(fd)
            mapping = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        self._mappings[block] = mapping

    def view(self, block: int, size: int, on_release: Callable[[], object]) -> memoryview:
        """A read-only view of the first ``size`` bytes of a block.

        Args:
            block: that was added and not dropped.
            size: at least 1.
            on_release: called exactly once, when the last of the view and all that is made of it is gone
                (slices, arrays, buffers of pickles); in any thread and at any moment, so it may take no
                lock. Not called at exit.

        Raises:
            ValueError: for a block that is not mapped, or is smaller.
        """
        mapping = self._mappings.get(block)
        if mapping is None:
            raise ValueError(f"block {block} is not mapped here")
        if not 0 < size <= len(mapping):
            raise ValueError(f"{size} bytes are not in block {block} of {len(mapping)}")
        lent = np.frombuffer(mapping, np.uint8, size)
        when_gone(lent, on_release)
        return lent.data

    def drop(self, block: int) -> None:
        """The publisher let go of a block; its mapping goes with the last view. Nothing when unknown."""
        self._mappings.pop(block, None)

    def close(self) -> None:
        """Drop every block; views stay, and nothing can be added any longer."""
        self._closed = True
        self._mappings.clear()
