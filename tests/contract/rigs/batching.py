"""A server whose calls go in batches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from pzc import (
    Proxy,
    Server,
    Signal,
)

from tests.contract.rigs.calling import KEY, served


class Bench:
    """Notes the order of what was done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.notes = {"a": 1}
        self.changed = Signal()
        self.limit = 5.0
        self._x = 0

    @property
    def x(self) -> int:
        """A position."""
        self.done.append("get x")
        return self._x

    @x.setter
    def x(self, value: int) -> None:
        self.done.append(f"set x {value}")
        self._x = value

    def move(self, by: int, *, times: int = 1) -> int:
        self.done.append(f"move {by} x {times}")
        self._x += by * times
        return self._x

    def fail(self) -> None:
        raise ValueError("out of range")

    def later(self) -> Future[int]:
        return Future()

    def history(self) -> list[str]:
        return list(self.done)


@pytest.fixture(params=["", KEY], ids=["unsigned", "signed"])
def bench(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Proxy]]:
    with served(Bench(), key=request.param) as pair:
        yield pair
