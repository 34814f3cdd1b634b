"""Streams: what generators give, sent item by item, and run only as far as they are read.

::

    stream     event                               next
    -          a method returned a generator       open
    open       asked for an item                   open: runs in its turn until it gives one
    open       generator ended or raised           over
    open       dropped, its reader is dead, or     over: the generator is closed in its turn
               the server stops
"""

from __future__ import annotations

import inspect
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

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
"""A value and None, or None and the description of a reference."""

AnyGenerator: TypeAlias = "Generator[Any, Any, Any] | AsyncGenerator[Any, Any]"


@dataclass(eq=False)
class _Stream:
    identity: Identity
    generator: AnyGenerator
    member: Member
    stop: Stop | None
    running: threading.Lock = field(default_factory=threading.Lock)
    call: Call | None = None
    dropped: bool = False
    ticket: int = 0


class Streams:
    """Open streams of one server; safe from any thread.

    Args:
        lanes: where generators are closed.
        coroutines: runs asynchronous generators.
        presence: reports dead readers.
        item: makes what is sent of a call, what its generator gave, and the member.
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
        self._streams: dict[object, _Stream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, generator: AnyGenerator, call: Call, member: Member) -> str:
        """Open a stream for the caller; returns its id.

        Raises:
            Refused: when the clients of its key have `limits.streams`.
        """
        stream_id, identity = secrets.token_hex(8), call.caller.identity
        stream = _Stream(identity, generator, member, call.stop)
        with self._lock:
            of_key = sum(each.identity.key_id == identity.key_id for each in self._streams.values())
            if of_key >= limits.current.streams:
                raise Refused(f"this key has {of_key} streams of this server open: close some")
            stream.ticket = self._presence.hold(identity, "stream", partial(self._close, stream_id))
            self._streams[stream_id] = stream
        return stream_id

    def _find(self, stream_id: object) -> _Stream | None:
        return self._streams.get(stream_id) if isinstance(stream_id, str) else None

    def member(self, stream_id: object) -> Member:
        """The member that gave a stream; `NOTHING` for one that is not open."""
        stream = self._find(stream_id)
        return NOTHING if stream is None else stream.member

    def advance(self, stream_id: object, call: Call) -> dict[str, Any]:
        """Run a generator in this thread to its next item; returns the answer.

        Raises:
            Refused: for a stream that is not open, or not the caller's.
        """
        stream = self._find(stream_id)
        if stream is None or stream.identity != call.caller.identity:
            raise Refused("no such stream: it ended, was closed, or its server was restarted; call again")
        with stream.running:
            stream.call = call
            with nullcontext() if stream.stop is None else stream.stop.of(call):
                answer = self._step(stream, call)
            stream.call = None
        if answer["done"]:
            self._remove(stream_id)
        return answer

    def _step(self, stream: _Stream, call: Call) -> dict[str, Any]:
        try:
            given = _END if stream.dropped else self._next(stream.generator)
            if stream.dropped:
                raise Refused(_CLOSED)
            return listed([] if given is _END else [self._item(call, given, stream.member)], given is _END)
        except BaseException as exc:
            return listed([], True, raised(Refused(_CLOSED) if stream.dropped else exc)[2])

    def _next(self, generator: AnyGenerator) -> Any:
        if isinstance(generator, AsyncGenerator):
            return self._coroutines.run(_anext(generator))
        return next(generator, _END)

    def drop(self, stream_id: object, caller: Asker) -> None:
        """Close a stream of the caller before its end; one that is not open is closed already."""
        stream = self._find(stream_id)
        if stream is not None and stream.identity == caller.identity:
            self._close(stream_id)

    def _remove(self, stream_id: object) -> _Stream | None:
        with self._lock:
            stream = self._streams.pop(stream_id, None)
        if stream is not None:
            self._presence.drop(stream.ticket)
        return stream

    def _close(self, stream_id: object) -> None:
        stream = self._remove(stream_id)
        if stream is not None:
            stream.dropped = True
            if (call := stream.call) is not None:
                call.tell()
            self._lanes[stream.member.lane].run(partial(self._end, stream))

    def _end(self, stream: _Stream) -> None:
        with stream.running:
            if isinstance(stream.generator, AsyncGenerator):
                self._coroutines.run(stream.generator.aclose())
            else:
                stream.generator.close()

    def close(self) -> None:
        """Close every stream, while the lanes still run."""
        for stream_id in list(self._streams):
            self._close(stream_id)


def is_stream(value: object) -> bool:
    """Whether a result is sent item by item."""
    return inspect.isgenerator(value) or inspect.isasyncgen(value)


async def _anext(generator: AsyncGenerator[Any, Any]) -> Any:
    return await anext(generator, _END)


def listed(items: list[Item], done: bool, error: Any = None) -> dict[str, Any]:
    """The answer that brings items: references apart, by their places, where None stands."""
    answer: dict[str, Any] = {"items": [value for value, _ in items], "done": done, "raised": error}
    refs = [[place, reference] for place, (_, reference) in enumerate(items) if reference is not None]
    return {**answer, "refs": refs} if refs else answer


def each_of(things: object) -> Any:
    """A generator of what can be iterated, also asynchronously."""
    return _each_async(things) if hasattr(type(things), "__aiter__") else _each(things)


def _each(things: Any) -> Iterator[Any]:
    yield from things


async def _each_async(things: Any) -> AsyncIterator[Any]:
    async for each in things:
        yield each
