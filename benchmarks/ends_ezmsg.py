"""ezmsg: shared memory and a socket that wakes; pickles, nothing signed.

A publisher waits for its slowest reader. Publisher and subscriber live in the event loops that ezmsg needs,
and so does the benchmark's job. The graph server is a thread of the publisher's process, on a loopback port
of its own.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import numpy as np

from benchmarks.ends import ROUND_LIMIT, SMALL, TOPIC, Loop, Reader, Setting, Take, Writer, late

T = TypeVar("T")
START_TIMEOUT = 20.0
HEADER = 1 << 16
"""Bytes that ezmsg may need beside a payload."""


class EzmsgWriter(Writer):
    """A publisher, with its graph server."""

    loops = True

    def __init__(self, setting: Setting) -> None:
        self._loop = Loop()
        graph: Any = importlib.import_module("ezmsg.core.graphserver")
        context: Any = importlib.import_module("ezmsg.core.graphcontext").GraphContext
        self._server = graph.GraphServer()
        self._server.start(("127.0.0.1", 0))
        self.address = str(self._server.address)
        self._context = context(self._server.address, auto_start=False)
        self._publisher = self._loop.run(self._open(setting), START_TIMEOUT)

    async def _open(self, setting: Setting) -> Any:
        await self._context.__aenter__()
        return await self._context.publisher(
            TOPIC,
            host="127.0.0.1",
            buf_size=setting.size + HEADER,
            num_buffers=max(4, min(32, (64 << 20) // setting.size)),
        )

    def send(self, payload: Any) -> Any:
        """Publish it."""
        return self._publisher.broadcast(payload)

    def pause(self, seconds: float) -> Any:
        """As `asyncio.sleep`."""
        return asyncio.sleep(seconds)

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """In the event loop."""
        return self._loop.run(job)

    def close(self) -> None:
        """Close the publisher and stop the graph server."""
        self._loop.run(self._context.__aexit__(None, None, None), 5.0)
        self._server.stop()
        self._loop.close()


class EzmsgReader(Reader):
    """A subscriber, without copies."""

    def __init__(self, setting: Setting, address: str) -> None:
        self._loop = Loop()
        host, _, port = address.rpartition(":")
        context: Any = importlib.import_module("ezmsg.core.graphcontext").GraphContext
        self._context = context((host, int(port)), auto_start=False)
        self._small = setting.size <= SMALL
        self._subscriber = self._loop.run(self._open(), START_TIMEOUT)

    async def _open(self) -> Any:
        await self._context.__aenter__()
        return await self._context.subscriber(TOPIC)

    async def _read(self, take: Take) -> None:
        while True:
            async with self._subscriber.recv_zero_copy() as payload:
                if take(payload if self._small else np.asarray(payload)):
                    return

    def read(self, take: Take, ready: Callable[[], object]) -> None:
        """See `Reader.read`."""
        ready()
        try:
            self._loop.run(self._read(take), ROUND_LIMIT)
        except TimeoutError:
            raise late() from None

    def close(self) -> None:
        """Close the subscriber."""
        self._loop.run(self._context.__aexit__(None, None, None), 5.0)
        self._loop.close()
