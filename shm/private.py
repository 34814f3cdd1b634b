"""Private views of somebody else's blocks: writable, and what is written to them nobody else sees.

A block is mapped once, copy-on-write, and seen again and again: to look up its pages costs more than to copy
them. What a holder of a former view wrote lies in pages of this process, which hide the block's. The kernel
tells whether there are any (``/proc/self/pagemap``); they are given back before the next view.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..protocol.lazily import Lazily
from .blocks import address_of, capacity
from .gone import when_gone

if TYPE_CHECKING:
    import numpy as np
else:
    np = Lazily("numpy")

_ENTRY = 8
_KIND = 61
"""Number of the lowest of an entry's three highest bits: page of a file; swapped; present."""


class Private:
    """A block, mapped as long as this object or a view of it lives.

    Args:
        fd: of somebody's block; it stays open, and is not needed any longer.

    Attributes:
        was_written: at the last `renew`, somebody had written to a former view.

    Raises:
        ValueError: when the descriptor is of no sealed block whose pages are reserved.
        OSError: when it cannot be mapped here.
    """

    def __init__(self, fd: int) -> None:
        self._mapping = mmap.mmap(fd, capacity(fd), access=mmap.ACCESS_COPY)
        self._address = address_of(memoryview(self._mapping))
        self.was_written = False

    def view(self, size: int, on_release: Callable[[], object]) -> memoryview:
        """A writable view of the first ``size`` bytes.

        Args:
            size: at least 1.
            on_release: called exactly once, when the last view of these bytes is gone (slices, arrays made
                of them); in any thread and at any moment, so it may take no lock. Not called at exit.

        Raises:
            ValueError: when the block is smaller.
        """
        if not 0 < size <= len(self._mapping):
            raise ValueError(f"{size} bytes are not in a block of {len(self._mapping)}")
        lent = np.frombuffer(self._mapping, np.uint8, size)
        when_gone(lent, on_release)
        return lent.data

    def copy(self, size: int) -> memoryview:
        """The first ``size`` bytes in memory of their own; errors as `view`."""
        copied = np.empty(size, np.uint8)
        copied[:] = np.frombuffer(self.view(size, bool), np.uint8)
        return copied.data

    def renew(self) -> bool:
        """Show what the block holds now, nothing of former views, of which none may be left.

        False when the kernel does not allow it (the memory is locked): then the block is to be mapped anew.
        """
        self.was_written = _written(self._address, len(self._mapping))
        if self.was_written:
            try:
                self._mapping.madvise(mmap.MADV_DONTNEED)
            except OSError:
                return False
        return True


def _written(address: int, size: int) -> bool:
    """True when a page of a private mapping of a file is this process's own, or nobody can tell."""
    first, last = address // mmap.PAGESIZE, (address + size - 1) // mmap.PAGESIZE
    wanted, told = (last - first + 1) * _ENTRY, b""
    with contextlib.suppress(OSError):
        fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        try:
            told = os.pread(fd, wanted, first * _ENTRY)
        finally:
            os.close(fd)
    if len(told) != wanted:
        return True
    kinds = np.frombuffer(told, np.uint64) >> np.uint64(_KIND)
    return bool(np.any((kinds != 0) & (kinds & 1 == 0)))
