"""A lock that ends with its process, however that ends."""

from __future__ import annotations

import os
from pathlib import Path

from ..protocol.errors import JournalError
from .private import FILE


def lock_file(path: Path, busy: str) -> int:
    """Descriptor that holds an exclusive lock while it is open; the kernel drops it on a kill.

    Args:
        path: of the file, made when absent.
        busy: what the error says when another process holds it.

    Raises:
        JournalError: when another process holds it.
        OSError: when the file cannot be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE)
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise JournalError(busy) from None
    return descriptor
