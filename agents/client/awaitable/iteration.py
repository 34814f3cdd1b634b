"""What ``async for`` gets of an awaitable proxy: the items of a call, and the notifications of a signal."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, cast

from ....protocol.paths import Path
from ....transport.helpers import aside
from ...notification import Notification
from ...notifications.subscription import Subscription
from ..streams import RemoteStream
from .link import Link
from .threads import Awaited, finished, start


class Call(Coroutine[Any, Any, Any]):
    """A call of a remote method: await it, give it to a task, or iterate it when it is a generator.

    Args:
        coroutine: that makes the call.
        what: for texts, such as the warning about an await that was forgotten.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], what: str) -> None:
        self.__qualname__ = coroutine.__qualname__ = what  # by which tasks are shown
        self._coroutine = coroutine
        self._what = what

    def __repr__(self) -> str:
        return f"<call of {self._what}>"

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """As of every coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """As of every coroutine."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """As of every coroutine."""
        self._coroutine.close()

    def __aiter__(self) -> Items:
        return Items(self)


class Items(AsyncIterator[Any]):
    """Items of a remote generator, or of something that is held; a cancelled wait loses none.

    Dropping it ends the generator early. Raises what the generator raised, after the items before it;
    otherwise as `RemoteStream`.

    Args:
        source: the stream, or the call that will give it, or something else with items.
        convert: makes what a reader gets of an item of a stream.
    """

    def __init__(self, source: RemoteStream | Call, convert: Callable[[Any], Any] | None = None) -> None:
        self._convert = convert
        self._source: RemoteStream | Call | AsyncIterator[Any] | None = source
        self._items: deque[Any] = deque()
        self._batch: Awaited[tuple[list[Any], bool]] | None = None
        self._opening: tuple[asyncio.Task[Any], weakref.finalize[..., Items]] | None = None

    def __aiter__(self) -> Items:
        return self

    async def __anext__(self) -> Any:
        if isinstance(self._source, Call):
            await self._open(self._source)
        if isinstance(self._source, AsyncIterator):
            return await anext(self._source)
        while not self._items:
            if not isinstance(self._source, RemoteStream):
                raise StopAsyncIteration
            batch = self._batch = self._batch or Awaited(self._source.next_batch_later())
            await batch.finished()
            if batch is self._batch:  # else another task has taken it
                self._take(batch.future)
        return self._items.popleft()

    async def _open(self, call: Call) -> None:
        if self._opening is None:
            loop = asyncio.get_running_loop()
            task = loop.create_task(call)
            self._opening = task, weakref.finalize(self, _cancel, loop, task)
            self._opening[1].atexit = False
        opening, give_up = self._opening
        await asyncio.wait((opening,))
        if self._source is not call:  # another task has taken it, or it was closed
            return
        give_up.detach()
        self._source = self._opening = None
        opened = opening.result()
        if isinstance(opened, list | tuple):
            self._items.extend(cast("list[Any]", opened))
        elif isinstance(opened, AsyncIterable):
            self._source = aiter(cast("AsyncIterable[Any]", opened))
        else:
            raise TypeError(f"{call!r} gave {opened!r:.100}, which is no stream: await it")

    def _take(self, batch: Future[tuple[list[Any], bool]]) -> None:
        source, self._source, self._batch = self._source, None, None
        items, done = batch.result()
        self._items.extend(items if self._convert is None else map(self._convert, items))
        if not done:
            self._source = source

    async def aclose(self) -> None:
        """End the generator at the server, and this iterator. Again: no effect."""
        source, self._source = self._source, None
        self._items.clear()
        if self._opening is not None:
            self._opening[1]()
        elif isinstance(source, Items):
            await source.aclose()
        elif isinstance(source, RemoteStream):
            source.close()


def _cancel(loop: asyncio.AbstractEventLoop, opening: asyncio.Task[Any]) -> None:
    with suppress(RuntimeError):  # the event loop may be closed by now
        loop.call_soon_threadsafe(opening.cancel)


class Notifications(AsyncIterator[Notification]):
    """Notifications of a remote signal; a cancelled wait loses none. Dropping it ends the subscription.

    Ends when the proxy is closed.

    Args:
        link: of the proxy.
        path: of the signal, from what is served.
    """

    def __init__(self, link: Link, path: Path) -> None:
        self._link = link
        self._path = path
        self._begun: Future[Subscription] | None = None

    def __aiter__(self) -> Notifications:
        return self

    async def __anext__(self) -> Notification:
        await self._link.connect()
        if self._begun is None:
            self._begun = start(partial(self._link.subscribe, self._path, None))
            weakref.finalize(self, _abandon, self._link, self._begun).atexit = False
        await finished(self._begun)
        return await anext(self._begun.result())


def _abandon(link: Link, begun: Future[Subscription]) -> None:
    begun.add_done_callback(partial(_close, link))


def _close(link: Link, begun: Future[Subscription]) -> None:
    if begun.exception() is None and link.remote is not None:
        aside(link.remote.agent.loop, begun.result().close)
