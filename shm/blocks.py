"""Blocks: memory that one process writes and others see without a copy.

A block is a Linux ``memfd``: it has no name, so nothing is left behind by whoever is killed. Its size is
sealed, because a mapping of a file that shrinks is a SIGBUS for its reader, and its pages are reserved up
front, because one that cannot be had later is a SIGBUS for its writer. Only the process that created a
block can write to it; where the kernel knows ``F_SEAL_FUTURE_WRITE`` (5.1) it sees to that.
"""

from __future__ import annotations

import contextlib
import mmap
import os

_SEAL_FUTURE_WRITE = 0x10  # Python names it from 3.13 on


class Block:
    """Shared memory that this process writes; see `create`.

    Attributes:
        fd: descriptor to hand to readers; -1 after `close`.
        size: bytes.
        buffer: all of it, writable; gone after `close`.
    """

    __slots__ = ("buffer", "fd", "size")

    def __init__(self, fd: int, buffer: memoryview) -> None:
        self.fd = fd
        self.size = buffer.nbytes
        self.buffer = buffer

    @classmethod
    def create(cls, size: int) -> Block:
        """A block of ``size`` bytes, all zero, every page of it reserved.

        Raises:
            OSError: when the memory, or a descriptor, cannot be had.
        """
        import fcntl

        fd = os.memfd_create("pzc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(fd, 0, size)
            mapping = mmap.mmap(fd, size)
            for seal in (fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW, _SEAL_FUTURE_WRITE, fcntl.F_SEAL_SEAL):
                with contextlib.suppress(OSError):  # an older kernel lacks one
                    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seal)
            return cls(fd, memoryview(mapping))
        except BaseException:
            os.close(fd)
            raise

    def close(self) -> None:
        """Close the descriptor; the memory goes with the last view of it, here and elsewhere."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self.buffer = memoryview(b"")


def capacity(fd: int) -> int:
    """Bytes of a block of which a mapping is safe: none of them can go away under its reader.

    Raises:
        ValueError: when the descriptor is of no block whose size is sealed and whose pages are reserved.
    """
    import fcntl

    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if not seals & fcntl.F_SEAL_SHRINK:
        raise ValueError(
            "the descriptor is of no block whose size is sealed: it could shrink under its reader"
        )
    status = os.fstat(fd)
    if status.st_blocks * 512 < status.st_size:
        raise ValueError(f"a block of {status.st_size} bytes has {status.st_blocks * 512} of them reserved")
    return status.st_size
