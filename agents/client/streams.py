"""RemoteStream: what a remote generator yields, in order; it runs no item further than it was read.

::

    state      event                                     next
    open       reader wants an item, some are here       open
    open       reader wants an item, none is here        asking: for one
    asking     items                                     open
    asking     items, and the generator has ended        ending (the server has forgotten it)
    asking     no answer, refused: restarted, closed     ended; the reader gets the error
    ending     the items here are read                   ended; the reader gets what the generator raised
    open       close(), or nobody refers to it           ended; the server is told, nobody waits
    open       its proxy is closed                       likewise; the reader gets the error

The generator runs only while it is asked, for one item at a time: so no item waits for the next one.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from ...protocol.errors import RemoteProtocolError
from ...protocol.shown import shown
from ...transport.inherited import Stays
from ...transport.peer import Peer
from ...transport.threads import Future
from .answers import Items
from .interfaces import Served
from .terms import Terms


class RemoteStream(Stays, Iterator[Any]):
    """Iterator over the items of a remote generator; safe from any thread.

    Close it, or leave its ``with`` block, to end the generator early; dropping it does so as well.
    Iterating raises what the generator raised, after the items before it; ``AgentClosed`` when the proxy was
    closed; ``CallTimeout`` and ``PeerLost`` when no item came within the timeout of the call; ``Refused``
    when the server does not know the stream any more, for example after a restart.

    Args:
        served: whom the call was made through.
        peer: who has the generator.
        stream_id: its id there.
        timeout: for the next items, in seconds.
    """

    def __init__(self, served: Served, peer: Peer, stream_id: str, timeout: float) -> None:
        self._served = served
        self._id = stream_id
        self._terms = Terms(timeout)
        self._items: deque[Any] = deque()
        self._error: BaseException | None = None
        self._done = False
        self._turn = threading.Lock()
        self._order = threading.RLock()
        self._answered: dict[int, tuple[Future[Any], Future[Any]]] = {}
        self._last_asked = self._last_read = 0
        self._owner = served.anchor and served.anchor()  # the proxy stays open as long as its stream
        release = served.client.heartbeat.hold(peer)
        drop = partial(served.tell, {"pzc": "drop", "id": stream_id}, peer)
        self._finalizer = weakref.finalize(self, _drop, release, drop)
        self._finalizer.atexit = False
        self._release = release

    def __repr__(self) -> str:
        state = " (ended)" if self._done else ""
        return f"<stream of items from {self._served.endpoint}{state}: iterate over it>"

    def __iter__(self) -> RemoteStream:
        return self

    def __next__(self) -> Any:
        items = self._items
        while True:
            with suppress(IndexError):  # what is raised below is no consequence of that
                return items.popleft()
            with self._turn:
                if not items:
                    self._more()

    def _more(self) -> None:
        self._raise_or_stop()
        try:
            self._take(self._served.request("next", self._options(), self._terms))
        except BaseException:
            self.close()  # what the lost answer held is gone, and an iterator has no second try
            raise

    def _raise_or_stop(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        if self._done:
            raise StopIteration

    def _options(self) -> dict[str, Any]:
        return {"id": self._id}

    def _take(self, answer: object) -> None:
        if not isinstance(answer, Items):
            raise RemoteProtocolError(
                f"{self._served.endpoint} did not answer with items: {shown(answer, 100)}"
            )
        if self._done:  # closed meanwhile
            return
        self._items.extend(answer.items)
        if answer.done or answer.error is not None:
            self._error = answer.error
            self._done = True
            self._finalizer.detach()
            self._release()

    def next_batch_later(self) -> Future[tuple[list[Any], bool]]:
        """The next items, without waiting; never blocks.

        Cancelling the future loses nothing: its items come with the next one.

        Returns:
            Future of the items and whether the stream has ended with them; it raises what iterating
            raises. After the end: no items, True.
        """
        batch: Future[tuple[list[Any], bool]] = Future()
        if self._items or self._error is not None or self._done:
            self._hand_out(batch)
            return batch
        with self._order:
            asked = self._served.request_later("next", self._options(), self._terms)
            self._last_asked += 1
            number = self._last_asked
        asked.add_done_callback(partial(self._on_answer, number, batch))
        return batch

    def _on_answer(self, number: int, batch: Future[Any], asked: Future[Any]) -> None:
        """Read answers in the order of the questions: a later one may be quicker on its way."""
        with self._order:
            self._answered[number] = batch, asked
            while (entry := self._answered.pop(self._last_read + 1, None)) is not None:
                self._last_read += 1
                self._on_items(*entry)

    def _on_items(self, batch: Future[tuple[list[Any], bool]], asked: Future[Any]) -> None:
        try:
            self._take(asked.result())
        except Exception as exc:
            self.close()
            self._error = exc
        self._hand_out(batch)

    def _hand_out(self, batch: Future[tuple[list[Any], bool]]) -> None:
        if not batch.set_running_or_notify_cancel():
            return
        items: list[Any] = []
        while self._items:
            items.append(self._items.popleft())
        error = None if items else self._error
        if error is None:
            batch.set_result((items, self._done and self._error is None))
        else:
            self._error = None
            batch.set_exception(error)

    def __enter__(self) -> RemoteStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the generator at the server, and this iterator; never blocks. Again: no effect.

        Closing the proxy does so as well, and then the next read raises AgentClosed instead of ending.
        """
        unread, abort = not self._done or bool(self._items), self._served.abort
        self._done = True
        self._items.clear()
        self._error = abort.error() if unread and abort.is_set() else None
        self._finalizer()


def _drop(release: Callable[[], object], drop: Callable[[], object]) -> None:
    release()
    drop()
