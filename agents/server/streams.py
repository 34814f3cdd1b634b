"""Streams: what generators give, sent item by item, and run only as far as they are read.

::

    stream     event                               next
    -          a method returned a generator       open
    open       asked for an item                   open: runs in its turn until it gives one
    open       generator ended or raised           over
    open       dropped, its reader is dead, or     over: the generator is closed in its turn; whoever
               the server is stopped               asks for an item meanwhile is refused
"""

from __future__ import annotations

import inspect
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...protocol import limits
from ...protocol.contents import raised
from ...protocol.errors import Refused
from ...protocol.message import Identity
from .call import Asker, Call
from .coroutines import Coroutines
from .lane import Lane
from .marks import NOTHING, Member
from .presence import Presence
from .stop import Stop

_CLOSED = "this stream was closed before its end; its server may be about to stop"

_END = object()

Item = tuple[Any, Any]
"""Its value and None, or None and what is told of it."""


@dataclass(eq=False)
class _Stream:
    identity: Identity
    generator: Generator[Any, Any, Any] | AsyncGenerator[Any, Any]
    member: Member
    stop: Stop | None
    running: threading.Lock = field(default_factory=threading.Lock)
    call: Call | None = None
    dropped: bool = False
    ticket: int = 0


class Streams:
    """Open streams of one server; safe from any thread.

    Args:
        lanes: in whose turns generators are closed.
        coroutines: runs asynchronous generators.
        presence: says which readers are dead.
        item: makes of what a generator gave what is sent; gets call, item and member.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        coroutines: Coroutines,
        presence: Presence,
        item: Callable[[Call, Any, Member], Item],
    ) -> None:
        self._lanes = lanes
        self._coroutines = coroutines
        self._presence = presence
        self._item = item
        self._lock = threading.Lock()
        self._streams: dict[str, _Stream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def open(
        self, generator: Generator[Any, Any, Any] | AsyncGenerator[Any, Any], call: Call, member: Member
    ) -> str:
        """The id of a new stream, for whoever made the call.

        Raises:
            Refused: when the holders of its key have `streams`.
        """
        stream_id, identity = secrets.token_hex(8), call.caller.identity
        with self._lock:
            of_key = sum(each.identity.key_id == identity.key_id for each in self._streams.values())
            if of_key >= limits.current.streams:
                raise Refused(f"this key has {of_key} streams of this server open: close some")
            stream = self._streams[stream_id] = _Stream(identity, generator, member, call.stop)
        try:
            stream.ticket = self._presence.hold(identity, "stream", partial(self._close, stream_id))
        except Refused:
            del self._streams[stream_id]
            raise
        return stream_id

    def _find(self, stream_id: object, identity: Identity) -> _Stream:
        stream = self._streams.get(stream_id) if isinstance(stream_id, str) else None
        if stream is None or stream.identity != identity:
            raise Refused("no such stream: it ended, was closed, or its server was restarted; call again")
        return stream

    def member(self, stream_id: object) -> Member:
        """What gave a stream; nothing for one that is not open."""
        stream = self._streams.get(stream_id) if isinstance(stream_id, str) else None
        return NOTHING if stream is None else stream.member

    def advance(self, stream_id: object, call: Call) -> tuple[list[Item], bool, Any]:
        """The next item of a stream, or none: whether it has ended, and the error that ended it.

        Runs the generator in the calling thread.

        Raises:
            Refused: for a stream that is not open, or not the caller's.
        """
        stream = self._find(stream_id, call.caller.identity)
        with stream.running:
            stream.call = call
            with nullcontext() if stream.stop is None else stream.stop.of(call):
                items, done, error = self._step(stream, call)
            stream.call = None
        if done:
            with self._lock:
                self._streams.pop(str(stream_id), None)
            self._presence.drop(stream.ticket)
        return items, done, error

    def _step(self, stream: _Stream, call: Call) -> tuple[list[Item], bool, Any]:
        items: list[Item] = []
        try:
            if not stream.dropped:
                given = self._next(stream.generator)
                if given is _END:
                    return items, True, None
                items.append(self._item(call, given, stream.member))
        except BaseException as exc:
            return items, True, raised(Refused(_CLOSED) if stream.dropped else exc)[2]
        return items, stream.dropped, raised(Refused(_CLOSED))[2] if stream.dropped else None

    def _next(self, generator: Generator[Any, Any, Any] | AsyncGenerator[Any, Any]) -> Any:
        if isinstance(generator, AsyncGenerator):
            return self._coroutines.run(_anext(generator))
        return next(generator, _END)

    def drop(self, stream_id: object, caller: Asker) -> None:
        """Close a stream early; one that is not open is closed already."""
        try:
            self._find(stream_id, caller.identity)
        except Refused:
            return
        self._close(str(stream_id))

    def _close(self, stream_id: str) -> None:
        with self._lock:
            stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        self._presence.drop(stream.ticket)
        stream.dropped = True
        call = stream.call
        if call is not None:
            call.tell()
        self._lanes[stream.member.lane].run(lambda: self._end(stream))

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


def listed(items: list[Item], done: bool, error: Any = None) -> dict[str, Any]:
    """Items as they are sent: references apart, by their places."""
    told: dict[str, Any] = {"items": [value for value, _ in items], "done": done, "raised": error}
    refs = [[place, refers] for place, (_, refers) in enumerate(items) if refers is not None]
    return {**told, "refs": refs} if refs else told


def each_of(things: object) -> Any:
    """A generator of what is in something that can be iterated, also asynchronously."""
    return _later(things) if hasattr(type(things), "__aiter__") else _now(things)


def _now(things: Any) -> Iterator[Any]:
    yield from things


async def _later(things: Any) -> AsyncIterator[Any]:
    async for each in things:
        yield each
