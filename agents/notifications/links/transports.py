"""Transports: how the messages of a link get to its reader.

==========  ============================================  ===================================
transport         `ready`                                       `send`
==========  ============================================  ===================================
UnixTransport     everything sent before is in the socket       writes, without waiting
PollTransport     a long poll of the reader waits               answers it
LocalTransport    always                                        calls the reader in this thread
==========  ============================================  ===================================
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ....protocol.link_codec import encode
from ....protocol.link_messages import Notify
from ....transport.exchange import UnixExchange
from ....transport.loop import Loop
from ...notification import Notification
from ...server.call import Call
from .inside import Inside
from .published import Published

UNIX_LIMIT = 1 << 16
"""Bytes of contents that go together over a Unix socket; a larger one goes in a block, or alone."""

TCP_LIMIT = 1 << 20
"""Bytes of contents that go together as the answer to a poll; a larger one goes alone."""

MAIL_LIMIT = 4 << 20
"""As `TCP_LIMIT`, of what was kept."""

UNIX_MAIL_LIMIT = 1 << 18
"""As `UNIX_LIMIT`, of what was kept; contents beyond that one go alone all the same."""


class Transport(Protocol):
    """Carries messages in order; one thread at a time sends.

    Attributes:
        kind: ``unix``, ``tcp`` or ``inproc``.
        limit: bytes of contents that go together.
        blocks: contents may lie in blocks.
    """

    kind: str
    limit: int
    blocks: bool

    @property
    def ready(self) -> bool:
        """Whether `send` would take a message now."""
        ...

    def send(self, notify: Notify, fd: int, contents: Sequence[Published]) -> bool:
        """Take a message; False when it did not go and another transport will have to send it again.

        Args:
            notify: with the next positions.
            fd: descriptor that goes with it, -1 for none; it stays the caller's.
            contents: the notifications of its rows.
        """
        ...

    def close(self) -> None:
        """End the transport; any thread."""
        ...


class UnixTransport:
    """The Unix connection on which the link was opened.

    Args:
        loop: waits until the socket takes more.
        request: that opened it; every message answers it.
        on_ready: called in the I/O thread when it is ready again.
        exchange: of the connection.
        limit: as of `Transport`.

    Raises:
        OSError: when a descriptor is missing.

    Attributes:
        connection: on which the request came.
    """

    kind = "unix"
    blocks = True

    def __init__(
        self, loop: Loop, request: Call, on_ready: Callable[[], object], exchange: UnixExchange,
        limit: int = UNIX_LIMIT,
    ) -> None:  # fmt: skip
        self.connection = request.caller.carrier
        self.limit = limit
        self._loop = loop
        self._opened = request.message
        self._exchange = exchange
        self._pipe = exchange.divert()
        self._on_ready = on_ready
        self._watched = -1
        loop.call(self._watch)

    @property
    def ready(self) -> bool:
        """See `Transport.ready`."""
        return self._pipe.ready

    @property
    def drained(self) -> bool:
        """Whether the reader has received everything: what is left when it hears of the end may be lost."""
        return self._pipe.drained

    def send(self, notify: Notify, fd: int, contents: Sequence[Published]) -> bool:
        """See `Transport.send`."""
        return self._exchange.push(("link", encode(notify)), self._opened, fd)

    def _watch(self) -> None:
        self._watched = self._pipe.fileno()
        if self._watched >= 0:
            self._loop.register(self._watched, self._on_writable)

    def _on_writable(self) -> None:
        if self._exchange.flush():
            self._on_ready()
        elif self._pipe.gone:
            self._close()

    def close(self) -> None:
        """See `Transport.close`."""
        self._loop.call(self._close)

    def _close(self) -> None:
        if self._watched >= 0:
            self._loop.unregister(self._watched)
            self._watched = -1
        self._exchange.release()


class PollTransport:
    """Answers the long polls of a reader, one after the other.

    Args:
        limit: as of `Transport`.

    Attributes:
        until: monotonic seconds when the poll that waits is to be answered.
        watched: somebody looks then.
    """

    kind = "tcp"
    blocks = False

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.until = 0.0
        self.watched = False
        self._lock = threading.Lock()
        self._poll: Call | None = None
        self._following = 1

    @property
    def ready(self) -> bool:
        """See `Transport.ready`."""
        return self._poll is not None

    def wait(self, poll: Call, following: int) -> None:
        """A poll came; the one before, if it still waits, is answered with nothing.

        Args:
            poll: the request.
            following: position of the notification to come.
        """
        with self._lock:
            before, self._poll = self._poll, poll
            self._following = following
        if before is not None:
            before.answer(Notify(following), "link")

    def send(self, notify: Notify, fd: int, contents: Sequence[Published]) -> bool:
        """See `Transport.send`."""
        with self._lock:
            poll, self._poll = self._poll, None
        return poll is not None and poll.answer(notify, "link")

    def close(self) -> None:
        """See `Transport.close`; a poll that waits is answered with nothing, and the next one is refused."""
        with self._lock:
            poll, self._poll = self._poll, None
        if poll is not None:
            poll.answer(Notify(self._following), "link")


class LocalTransport:
    """Calls a reader of the same process.

    Args:
        link: the reader.
        publisher: agent id.
        name: of the publisher.
        epoch: of the publisher.
        key_id: of the key that the publisher signs with, empty without keys.
        partition: of the publisher.
        types: what the publisher says of its topics.
    """

    kind = "inproc"
    limit = 1 << 62
    blocks = False
    ready = True

    def __init__(
        self, link: Inside, publisher: str, name: str, epoch: int, key_id: str, partition: str,
        types: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.link = link
        self._publisher = publisher
        self._name = name
        self._epoch = epoch
        self._key_id = key_id
        self._partition = partition
        self._types = types

    def send(self, notify: Notify, fd: int, contents: Sequence[Published]) -> bool:
        """See `Transport.send`."""
        now = time.time()
        self.link.take(notify, [self._notification(each, now) for each in contents])
        return True

    def _notification(self, published: Published, now: float) -> Notification:
        return Notification(
            self._publisher, self._name, published.topic, published.key, published.number, self._epoch,
            published.sent_ms / 1000, now, published.content, self._key_id,
            type=self._types.get(published.topic, ""), partition=self._partition,
        )  # fmt: skip

    def close(self) -> None:
        """See `Transport.close`."""
