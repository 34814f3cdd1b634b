"""A process that has no descriptors left, for tests of what it does then."""

from __future__ import annotations

import os

ROOM = 64  # numbers below the lowered limit that are sure to be free, until they are taken


class Hog:
    """Takes every descriptor that this process may have, but for some."""

    def __init__(self) -> None:
        import resource

        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._taken: list[int] = []

    def take(self, left: int = 0) -> None:
        """Leave so many."""
        import resource

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
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)
        while self._taken:
            os.close(self._taken.pop())

    def __enter__(self) -> Hog:
        self.take()
        return self

    def __exit__(self, *exc: object) -> None:
        self.free()
