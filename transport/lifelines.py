"""Lifelines: news of another process, from the kernel, whoever else may hold its sockets."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..shm import machine
from .loop import Loop


class Lifeline:
    """Watches one process; where that cannot be done it does nothing.

    Args:
        loop: whose thread watches.
        pid: of the process, which lives now.
        on_end: called once, in the I/O thread, when the process has ended.
    """

    def __init__(self, loop: Loop, pid: int, on_end: Callable[[], object]) -> None:
        self._loop = loop
        self._on_end = on_end
        self._fd = -1
        try:
            if machine.ENDINGS and pid != os.getpid():
                self._fd = os.pidfd_open(pid)
        except OSError:  # of another namespace, an older kernel
            return
        if self._fd >= 0:
            loop.call(self._watch)

    def _watch(self) -> None:
        if self._fd >= 0:
            self._loop.register(self._fd, self._ended)

    def _ended(self) -> None:
        self._close()
        self._on_end()

    def close(self) -> None:
        """Watch no longer; any thread."""
        self._loop.call(self._close)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.unregister(fd)
            os.close(fd)
