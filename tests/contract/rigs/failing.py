"""Errors of every kind, and a server that raises them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Proxy

from tests.contract.rigs.calling import KEY, served


class RangeError(ValueError):
    """An instrument's own error."""


class OddError(Exception):
    """Its constructor takes something else than it passes on."""

    def __init__(self, channel: int, value: float) -> None:
        super().__init__(f"channel {channel}: {value} V")


class HeavyError(Exception):
    """Carries what no serializer can express."""

    def __init__(self, text: str) -> None:
        super().__init__(text, threading.Lock())

    def __str__(self) -> str:
        return str(self.args[0])


class HostileError(Exception):
    """Fails when it is rebuilt."""

    def __reduce__(self) -> Any:
        return explode, ()


def explode() -> None:
    raise MemoryError("while being rebuilt")


class Faulty:
    """Raises what it is told."""

    error: BaseException = ValueError("none")

    def fail(self) -> None:
        deeper(self.error)

    @property
    def broken(self) -> int:
        raise self.error

    @broken.setter
    def broken(self, value: int) -> None:
        raise self.error

    def value(self) -> Any:
        return threading.Lock()

    def fine(self) -> int:
        return 7


@pytest.fixture(params=["", KEY], ids=["unsigned", "signed"])
def faulty(request: pytest.FixtureRequest) -> Iterator[tuple[Faulty, Proxy]]:
    target = Faulty()
    with served(target, key=request.param) as (_, proxy):
        yield target, proxy


def failure_of(target: Faulty, proxy: Proxy, error: BaseException) -> BaseException:
    target.error = error
    try:
        proxy.fail()
    except Exception as exc:
        return exc
    raise AssertionError("nothing was raised")


def deeper(error: BaseException) -> None:
    raise error
