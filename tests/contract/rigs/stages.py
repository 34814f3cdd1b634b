"""A stage whose move blocks and asks nothing, as a driver of a manufacturer does; and who moves it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Protocol, Proxy, Server

KEY = "a key that both sides know"
TIMEOUT = 10.0


class Axis:
    """It moves until it is stopped or arrives; its calls stand in the order in which they ended."""

    def __init__(self) -> None:
        self.moving, self.halted, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.calls: list[str] = []
        self._position = 0.0

    @property
    def position(self) -> float:
        """In millimetres; every reading is another one."""
        self._position += 1.0
        return self._position

    @position.setter
    def position(self, value: float) -> None:
        self._position = value
        self.calls.append("set")

    def move(self, position: float = 1.0) -> float:
        """Go there."""
        self.moving.set()
        self.halted.wait(TIMEOUT)
        self.calls.append("move")
        self.ended.set()
        return position

    def steps(self) -> Iterator[int]:
        """Go there, and say so between."""
        yield 1
        self.move()
        yield 2

    def stop(self) -> None:
        """Stop at once."""
        self.calls.append("stop")
        self.halted.set()

    def where(self) -> float:
        """As `position`."""
        return self.position


class Stage(Axis):
    """One axis, and a second one."""

    def __init__(self) -> None:
        super().__init__()
        self.y = Axis()


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.halted.set()
    made.y.halted.set()


STOPPED: dict[str, Any] = {
    "urgent": ["stop", "y.stop"],
    "on_cancel": {"move": "stop", "steps": "stop", "y.move": "stop"},
}


def moved_by(server: Server, transport: str, how: str) -> subprocess.Popen[str]:
    """A process that moves the stage."""
    arguments = [server.rep_endpoint, KEY, transport, how]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _CLIENT, *arguments], stderr=subprocess.DEVNULL, text=True
    )


def proxy_of(server: Server, **options: Any) -> Any:
    """Of the stage."""
    return Proxy(server.rep_endpoint, protocol=Protocol(KEY), **{"timeout": TIMEOUT, **options})


_CLIENT = """
import asyncio, sys, threading
from pzc import Protocol, Proxy, aio

endpoint, key, transport, how = sys.argv[1:]
options = {"protocol": Protocol(key), "transport": transport}

async def awaited():
    async with aio.Proxy(endpoint, **options) as stage:
        await stage.move()

if how == "awaited":
    asyncio.run(awaited())
else:
    stage = Proxy(endpoint, **options)
    if how == "plain":
        stage.move()
    elif how == "stream":
        list(stage.steps())
    elif how == "future":
        stage.move.future().result()
    else:
        stage.move.oneway()
        threading.Event().wait()
"""
