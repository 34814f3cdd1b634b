"""A C library whose calls block and that insists on one thread; libc stands for the vendor's."""

from __future__ import annotations

import ctypes
import threading


class Camera:
    """What the vendor's manual describes, one method per function of the library."""

    def __init__(self, library: str | None = None) -> None:
        self._library = ctypes.CDLL(library)  # calls through CDLL let other threads of Python run
        self._thread = threading.get_ident()

    def expose(self, milliseconds: int) -> int:
        """Block for the exposure, as such libraries do; 0 for success."""
        self._check()
        return int(self._library.usleep(1000 * milliseconds))

    def _check(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError("the library was initialised in another thread")
