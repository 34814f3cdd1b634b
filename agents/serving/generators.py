"""Generators: streams of a served object, run only as far as their readers have credit.

::

    stream     event                               next
    -          a method returned a generator       open
    open       asked for items                     open: runs in its turn until the credit is used, or
                                                   `SLICE` has passed and an item is there
    open       generator ended or raised           over: told behind its last items
    open       dropped, its reader is dead, or     over: the generator is closed in its turn; whoever
               the server is stopped               asks for items meanwhile is refused behind them
"""

from __future__ import annotations

import inspect
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...protocol import limits
from ...protocol.errors import LocalProtocolError, Refused
from ..messages import ps_message, raised, shown
from .calls import Call, Caller, current
from .coroutines import Coroutines
from .holding import Holding
from .lane import Lane
from .references import by_value

MAX_CREDIT = 1000
"""Items of one answer."""

MAX_BYTES = 4 << 20
"""Bytes of arrays and texts after which an answer is sent, however much credit is left."""

SLICE = 0.05
"""Seconds after which the items that are there are sent."""

_CLOSED = "this stream was closed before its end; its server may be about to stop"

_END = object()


@dataclass(eq=False)
class _Stream:
    caller: Caller
    generator: Generator[Any, Any, Any] | AsyncGenerator[Any, Any]
    name: object
    running: threading.Lock = field(default_factory=threading.Lock)
    call: Call | None = None
    dropped: bool = False
    ticket: int = 0


class Generators:
    """Open streams of one server; safe from any thread.

    Args:
        lane: in which generators are closed.
        coroutines: runs asynchronous generators.
        holding: closes the streams of dead readers.
    """

    def __init__(self, lane: Lane, coroutines: Coroutines, holding: Holding) -> None:
        self._lane = lane
        self._coroutines = coroutines
        self._holding = holding
        self._lock = threading.Lock()
        self._streams: dict[str, _Stream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def open(
        self, generator: Generator[Any, Any, Any] | AsyncGenerator[Any, Any], caller: Caller, name: object
    ) -> Any:
        """The answer that names a new stream, which the member of that name gave.

        Raises:
            Refused: when `streams` are open.
        """
        stream_id = secrets.token_hex(8)
        with self._lock:
            if len(self._streams) >= limits.current.streams:
                raise Refused(f"{limits.current.streams} streams of this server are open: close some")
            stream = self._streams[stream_id] = _Stream(caller, generator, name)
        try:
            stream.ticket = self._holding.hold(caller.identity, "stream", partial(self._close, stream_id))
        except Refused:
            del self._streams[stream_id]
            raise
        return ps_message("stream", {"id": stream_id})

    def _find(self, stream_id: object, caller: Caller) -> _Stream:
        stream = self._streams.get(stream_id) if isinstance(stream_id, str) else None
        if stream is None or stream.caller.identity != caller.identity:
            raise Refused("no such stream: it ended, was closed, or its server was restarted; call again")
        return stream

    def advance(self, stream_id: object, credit: object, caller: Caller) -> Any:
        """The next items of a stream; runs the generator in the calling thread.

        Raises:
            Refused: for a stream that is not open, or not the caller's.
            LocalProtocolError: for a credit that is no number between 1 and `MAX_CREDIT`.
        """
        if not isinstance(credit, int) or not 1 <= credit <= MAX_CREDIT:
            raise LocalProtocolError(f"credit is {shown(credit, 40)}, expected 1 to {MAX_CREDIT}")
        stream = self._find(stream_id, caller)
        with stream.running:
            stream.call = current()
            items, done, error = self._collect(stream, credit)
            stream.call = None
        if done:
            with self._lock:
                self._streams.pop(str(stream_id), None)
            self._holding.drop(stream.ticket)
        return ps_message("items", {"items": items, "done": done, "raised": error})

    def _collect(self, stream: _Stream, credit: int) -> tuple[list[Any], bool, Any]:
        items: list[Any] = []
        size, started = 0, time.monotonic()
        while len(items) < credit and size < MAX_BYTES and not stream.dropped:
            try:
                item = self._next(stream.generator)
                if item is not _END:
                    by_value(item, stream.name)
            except BaseException as exc:
                return items, True, raised(exc)[2]
            if item is _END:
                return items, True, None
            items.append(item)
            size += _size(item)
            if time.monotonic() - started > SLICE:
                break
        return items, stream.dropped, raised(Refused(_CLOSED))[2] if stream.dropped else None

    def _next(self, generator: Generator[Any, Any, Any] | AsyncGenerator[Any, Any]) -> Any:
        if isinstance(generator, AsyncGenerator):
            return self._coroutines.run(_anext(generator))
        return next(generator, _END)

    def drop(self, stream_id: object, caller: Caller) -> None:
        """Close a stream early; one that is not open is closed already."""
        try:
            self._find(stream_id, caller)
        except Refused:
            return
        self._close(str(stream_id))

    def _close(self, stream_id: str) -> None:
        with self._lock:
            stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        self._holding.drop(stream.ticket)
        stream.dropped = True
        call = stream.call
        if call is not None:
            call.cancelled = True
        self._lane.run(lambda: self._end(stream))

    def _end(self, stream: _Stream) -> None:
        with stream.running:
            if isinstance(stream.generator, AsyncGenerator):
                self._coroutines.run(stream.generator.aclose())
            else:
                stream.generator.close()

    def close(self) -> None:
        """Close every stream; the lane still runs."""
        for stream_id in list(self._streams):
            self._close(stream_id)


def is_stream(value: object) -> bool:
    """True for what is sent item by item."""
    return inspect.isgenerator(value) or inspect.isasyncgen(value)


async def _anext(generator: AsyncGenerator[Any, Any]) -> Any:
    return await anext(generator, _END)


def _size(item: object) -> int:
    size = getattr(item, "nbytes", None)
    if isinstance(size, int):
        return size
    return len(item) if isinstance(item, str | bytes | bytearray) else 64
