"""What the notification benchmark asks of a library: a writer in one process, readers in others.

A writer's jobs are coroutines, so that a library that lives in an event loop runs them there, without a
change of thread per message; for all others they are driven without any loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from benchmarks.jobs import WrongResult

T = TypeVar("T")
Array = np.ndarray[Any, np.dtype[np.float64]]
Take = Callable[[Any], bool]
"""Gets each payload, as bytes or anything with the buffer protocol; True when it wants no more."""

TOPIC = "bench"
SMALL = 64
"""Payloads of at most so many bytes are ``bytes``; larger ones are arrays of float64."""

ROUND_LIMIT = 100.0
"""Seconds that a reader waits for the end of a round."""


@dataclass(frozen=True)
class Setting:
    """What both ends of one contender are told.

    Attributes:
        size: bytes of one payload.
        readers: how many there are.
        token: sixteen digits, unlike those of any other team on this machine.
        folder: empty, and removed afterwards.
        own: what is this contender's own.
    """

    size: int
    readers: int
    token: str
    folder: str
    own: dict[str, Any] = field(default_factory=dict[str, Any])


class Writer(ABC):
    """The publishing end.

    Attributes:
        address: what its readers need to find it.
        loops: whether `send` and `pause` give what is to be awaited.
        sources: how many arrays the job fills in turn.
    """

    address = ""
    loops = False
    sources = 1

    @abstractmethod
    def send(self, payload: Any) -> Any:
        """Publish it; what is awaited when `loops`."""

    def settle(self, payload: Any) -> None:
        """Wait until the library needs this payload no more, so that it can be filled again."""
        return

    def loan(self, count: int) -> AbstractContextManager[Array]:
        """Memory of the library's, for an array of so many float64; published when it is left."""
        raise WrongResult("this library lends no memory")

    def pause(self, seconds: float) -> Any:
        """Let time pass; what is awaited when `loops`."""
        time.sleep(seconds)

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a job to its end."""
        try:
            job.send(None)
        except StopIteration as done:
            return done.value
        raise WrongResult("a job without a loop waited for one")

    def close(self) -> None:
        """Let go of everything."""
        return


class Reader(ABC):
    """The subscribing end."""

    @abstractmethod
    def read(self, take: Take, ready: Callable[[], object]) -> None:
        """Hand every payload to ``take`` until it wants no more.

        Args:
            take: gets the payloads.
            ready: called once, when nothing that is sent from now on can be missed.

        Raises:
            WrongResult: when that did not happen within `ROUND_LIMIT`.
        """

    def check(self) -> None:
        """Whether the library's own account is right; `WrongResult` when not."""
        return

    def close(self) -> None:
        """Let go of everything."""
        return


class CallbackReader(Reader):
    """A reader whose library calls `arrived` from a thread of its own."""

    def __init__(self) -> None:
        self._take: Take | None = None
        self._done = threading.Event()

    def arrived(self, payload: Any) -> None:
        """One payload; what comes between two rounds is of no interest."""
        take = self._take
        if take is not None and take(payload):
            self._take = None
            self._done.set()

    def read(self, take: Take, ready: Callable[[], object]) -> None:
        """See `Reader.read`."""
        self._done.clear()
        self._take = take
        ready()
        if not self._done.wait(ROUND_LIMIT):
            raise late()


class Loop:
    """An event loop in a thread of its own, for libraries that need one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop", daemon=True)
        self._thread.start()

    def run(self, job: Awaitable[T], timeout: float | None = None) -> T:
        """Run it there and wait for it.

        Raises:
            TimeoutError: when it has not ended within ``timeout`` seconds.
        """

        async def waited() -> T:
            return await asyncio.wait_for(job, timeout)

        return asyncio.run_coroutine_threadsafe(waited(), self._loop).result()

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)


def late() -> WrongResult:
    """What a reader raises that waited too long."""
    return WrongResult(f"the round did not end within {ROUND_LIMIT:g} s")
