"""The transport of a link inside a process: the publisher calls its reader, and is called by it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ....protocol.errors import PeerLost, PzcError
from ....protocol.link_messages import LinkMessage, Notify, Open
from ....protocol.notification import Notification
from ....protocol.peer import Peer
from ....transport.threads import Future
from .local import LocalLinks
from .reader_transports import News, Received, opened
from .reception import Reception

Take = Callable[["Inside", Notify, Sequence[Notification]], object]
"""Gets what the publisher sends over a transport, in whatever thread that publishes."""


class Inside:
    """See `ReaderTransport`.

    Args:
        linking: of the publisher.
        peer: the publisher.
        reader: agent id.
        take: gets the notifications.
    """

    kind = "inproc"
    more = True

    def __init__(self, linking: LocalLinks, peer: Peer, reader: str, take: Take) -> None:
        self._linking = linking
        self._peer = peer
        self._reader = reader
        self._take = take
        self._over = threading.Event()
        self._reception: Reception | None = None
        self._reason = "it was closed here"

    def open(self, message: Open, deadline: float) -> LinkMessage:
        """See `ReaderTransport.open`."""
        return opened(self._peer, self.ask(message))

    def ask(self, message: LinkMessage) -> Future[LinkMessage]:
        """See `ReaderTransport.ask`."""
        answer: Future[LinkMessage] = Future()
        try:
            answer.set_result(self._linking.hear(message, self._reader, self))
        except PzcError as exc:
            answer.set_exception(exc.with_traceback(None))  # which holds this frame, and with it the answer
        return answer

    def tell(self, news: News) -> bool:
        """See `ReaderTransport.tell`."""
        report = news()
        if report is not None:
            self._linking.hear(report, self._reader, self)
        return True

    def listen(self, reception: Reception) -> None:
        """See `ReaderTransport.listen`."""
        self._reception = reception
        if self._over.is_set():
            reception.look()

    def ready(self) -> list[Received | None]:
        """See `ReaderTransport.ready`: nothing but its end comes this way."""
        if self._over.is_set():
            raise PeerLost(f"{self._peer.endpoint} ended the link: {self._reason}")
        return []

    def close(self) -> None:
        """See `ReaderTransport.close`."""
        self._over.set()
        if self._reception is not None:
            self._reception.look()

    # --- as the publisher sees it: `LocalReader` ------------------------------------------------------

    def take(self, notify: Notify, notifications: Sequence[Notification]) -> None:
        """See `LocalReader.take`."""
        self._take(self, notify, notifications)

    def ended(self, reason: str) -> None:
        """See `LocalReader.ended`."""
        self._reason = reason
        self.close()
