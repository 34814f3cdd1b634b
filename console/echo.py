"""Echo: what ``pzc bench`` calls; ``pzc serve pzc.console.echo:Echo`` serves it on another machine."""

from __future__ import annotations

import threading
import time
from typing import Any

from ..agents import Signal
from ..transport.threads import waited

ARRAY = 1 << 16
"""Bytes from which on they are an array."""


class Echo:
    """Gives back what it gets, and publishes when told to."""

    def __init__(self) -> None:
        self.ticks = Signal("sent", "data")

    def add(self, left: int, right: int) -> int:
        """The sum."""
        return left + right

    def back(self, value: Any) -> Any:
        """What was given."""
        return value

    def tick(self, count: int, size: int, every: float) -> None:
        """Publish so many bytes so often, behind the Unix time of each; many of them as an array.

        Args:
            count: notifications.
            size: bytes of each.
            every: seconds between two; 0 for none.
        """
        import numpy as np  # which would take every command a tenth of a second

        pause, data = threading.Event(), bytes(size) if size < ARRAY else np.zeros(size, np.uint8)
        for _ in range(count):
            self.ticks.emit(time.time(), data)
            if every:
                waited(pause.wait, every)
