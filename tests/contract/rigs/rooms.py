"""Members that several threads are in at once, and one that refuses and fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.rigs.calling import TIMEOUT


class Room:
    """Counts who is inside, and lets a test decide when a call ends."""

    def __init__(self, meeting: int = 1) -> None:
        self._guard, self._meeting = threading.Lock(), threading.Barrier(meeting)
        self.inside = self.most = 0
        self.threads: set[int] = set()
        self.made_in = threading.get_ident()

    def meet(self) -> None:
        with self._guard:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.threads.add(threading.get_ident())
        self._meeting.wait(TIMEOUT)
        with self._guard:
            self.inside -= 1

    def where(self) -> tuple[int, int]:
        return self.made_in, threading.get_ident()


class Moody:
    """Quick, until it is told not to be."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.slow = False
        self.other: Callable[[], object] | None = None
        self.ran_in: list[str] = []

    def step(self) -> str:
        self.ran_in.append(threading.current_thread().name)
        if self.slow:
            self.slow = False
            self.entered.set()
            assert self.opened.wait(TIMEOUT)
        return "done"

    def relay(self) -> Any:
        return None if self.other is None else self.other()


@pytest.fixture
def moody() -> Iterator[Moody]:
    made = Moody()
    yield made
    made.opened.set()
