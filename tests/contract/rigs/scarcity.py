"""A process that has no descriptors or threads left, for tests of what it does then."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ROOM = 64  # numbers below the lowered limit that are sure to be free, until they are taken

_BEYOND = 1 << 46
"""Bytes that no stack can have."""


@contextmanager
def no_threads() -> Iterator[None]:
    """No thread can be started by this process."""
    before = threading.stack_size(_BEYOND)
    try:
        yield
    finally:
        threading.stack_size(before)


class Hog:
    """Takes every descriptor that this process may have, but for some."""

    def __init__(self) -> None:
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._taken: list[int] = []

    def take(self, left: int = 0) -> None:
        """Leave so many."""
        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + ROOM, self._limits[1]))
        null = os.open(os.devnull, os.O_RDONLY)
        self._taken.append(null)
        try:
            while True:
                self._taken.append(os.dup(null))
        except OSError:
            for _ in range(left):
                os.close(self._taken.pop())

    def free(self) -> None:
        """Give them back."""
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)
        while self._taken:
            os.close(self._taken.pop())

    def __enter__(self) -> Hog:
        self.take()
        return self

    def __exit__(self, *exc: object) -> None:
        self.free()
