"""A slot that is called in the GUI thread."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ..agents import SlotList
from ..delivery.policies import Policy
from .gui import Gui, is_gone

_GUI_WAITING = 10_000
"""Emissions of one connection that may wait for a GUI thread; then the oldest is dropped."""


class Connection:
    """A slot that is called in the GUI thread at every emission of a remote signal.

    It lasts until `close`, until the application quits, or until the Qt object that the slot belongs to is
    deleted. May be used as a context manager.

    Args:
        gui: of the application.
        signal: of a proxy.
        slot: what is called.

    Attributes:
        dropped: emissions that were left out because 10 000 waited for the GUI thread.
    """

    def __init__(self, gui: Gui, signal: Any, slot: Callable[..., object]) -> None:
        self.dropped = 0
        self._gui, self._signal = gui, signal
        self._owner = getattr(slot, "__self__", None)
        self._slots = SlotList()
        self._slots.connect(slot)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._posted = self._closed = False

    def open(self, policy: Policy | None) -> None:
        """Connect to the signal; errors as its own ``connect``."""
        self._signal.connect(self._take, policy)
        self._gui.held.add(self)

    def close(self) -> None:
        """Call the slot no more."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._waiting.clear()
        self._gui.held.discard(self)
        with contextlib.suppress(ValueError):  # its proxy was closed before
            self._signal.disconnect(self._take)

    def _take(self, *values: Any) -> None:
        with self._lock:
            if self._closed:
                return
            if len(self._waiting) >= _GUI_WAITING:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(values)
            posts, self._posted = not self._posted, True
        if posts:
            self._gui.post(self._call)

    def _call(self) -> None:
        """Call the slot once; the rest has its turn behind what waits meanwhile."""
        with self._lock:
            if not self._waiting:
                self._posted = False
                return
            values = self._waiting.popleft()
        if is_gone(self._owner):
            self.close()
            return
        self._gui.post(self._call)
        self._slots.call(values)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
