"""A served object with signals, and what came of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pzc import (
    Signal,
)

from tests.contract.rigs.calling import TIMEOUT


class Source:
    """Emits what it is told."""

    def __init__(self) -> None:
        self.changed = Watched()
        self.other = Watched()

    def emit(self, first: int, last: int) -> None:
        for number in range(first, last):
            self.changed.emit(number, number - 1)


class Collected:
    """A slot that waits for a number of values."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._arrived = threading.Condition()

    def __call__(self, value: int) -> None:
        with self._arrived:
            self.values.append(value)
            self._arrived.notify_all()

    def wait_for(self, count: int) -> list[int]:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.values) >= count, TIMEOUT), self.values[-3:]
            return list(self.values)


class Watched(Signal):
    """Tells when somebody connects and when everybody has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.connected, self.empty = threading.Event(), threading.Event()

    def connect(self, slot: Callable[..., Any]) -> None:
        super().connect(slot)
        self.empty.clear()
        self.connected.set()

    def disconnect(self, slot: Callable[..., Any] | None = None) -> None:
        super().disconnect(slot)
        if not self.slots:
            self.connected.clear()
            self.empty.set()
