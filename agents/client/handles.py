"""Handles: what a server keeps for this client until nobody here refers to it."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any


class Lease:
    """A handle, as often as it came, which is given back when this is collected.

    Args:
        handle: its id at the server.
        let_go: called with id and times in any thread, a finalizer's included; takes no lock.

    Attributes:
        times: how often it came.
    """

    __slots__ = ("__weakref__", "_handle", "_let_go", "times")

    def __init__(self, handle: str, let_go: Callable[[str, int], object]) -> None:
        self._handle = handle
        self._let_go = let_go
        self.times = 1

    def __del__(self) -> None:
        self._let_go(self._handle, self.times)


class Leases:
    """All leases of one proxy; what is over is told to the server many at once.

    Args:
        later: runs a function in the I/O thread; takes no lock.
        tell: sends a control request there.
        alive: begins to show the server that this client lives, and gives what ends that.
    """

    def __init__(
        self,
        later: Callable[[Callable[[], object]], object],
        tell: Callable[[dict[str, Any]], object],
        alive: Callable[[], Callable[[], object]],
    ) -> None:
        self._later = later
        self._tell = tell
        self._alive = alive
        self._lock = threading.Lock()
        self._held: weakref.WeakValueDictionary[str, Lease] = weakref.WeakValueDictionary()
        self._ends: deque[Callable[[], object]] = deque()
        self._over: deque[tuple[str, int]] = deque()
        self._coming = False

    def take(self, handle: str) -> Lease:
        """A handle that has just come."""
        with self._lock:
            held = self._held.get(handle)
            if held is not None:
                held.times += 1
                return held
            self._ends.append(self._alive())
            held = self._held[handle] = Lease(handle, self._let_go)
            return held

    def find(self, handle: str) -> Lease | None:
        """What keeps a handle that came before."""
        return self._held.get(handle)

    def _let_go(self, handle: str, times: int) -> None:
        self._over.append((handle, times))
        if not self._coming:  # else what is on its way to the I/O thread takes this one along
            self._coming = True
            self._later(self._send)

    def _send(self) -> None:
        self._coming = False  # first: what is appended from now on comes again
        handles: list[str] = []
        while self._over:
            handle, times = self._over.popleft()
            handles += [handle] * times
            self._ends.popleft()()
        if handles:
            self._tell({"pzc": "release", "handles": handles})
