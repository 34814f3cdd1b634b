"""The transport of a link inside a process: the publisher calls its reader, and is called by it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence

from ....protocol.errors import PeerLost, PzcError
from ....protocol.link_messages import LinkMessage, Notify, Open
from ....transport.peer import Peer
from ....transport.tables import Offers
from ....transport.threads import Future
from ...notification import Notification
from .reader_transports import News, Received, opened
from .reception import Reception

Take = Callable[["Inside", Notify, Sequence[Notification]], object]
"""Gets what the publisher sends over a transport, in whatever thread that publishes."""

Hear = Callable[[LinkMessage, str, "Inside"], LinkMessage]
"""`Linking.hear` of a publisher."""

offered: Offers[tuple[Hear, Hashable]] = Offers()
"""Publishers of this process, each with the fingerprint of its agent's protocol."""


def find(agent_id: str, fingerprint: Hashable) -> Hear | None:
    """Where links to an agent of this process are opened; None when it is not here.

    Args:
        agent_id: of the publisher.
        fingerprint: of the reader's protocol; one that sends and accepts something else is a stranger, as
            over the wire.
    """
    hear, theirs = offered.get(agent_id) or (None, None)
    return hear if theirs == fingerprint else None


class Inside:
    """See `ReaderTransport`.

    Args:
        hear: of the publisher.
        peer: the publisher.
        reader: agent id.
        take: gets the notifications.
    """

    kind = "inproc"
    more = True

    def __init__(self, hear: Hear, peer: Peer, reader: str, take: Take) -> None:
        self._hear = hear
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
            answer.set_result(self._hear(message, self._reader, self))
        except PzcError as exc:
            answer.set_exception(exc.with_traceback(None))  # which holds this frame, and with it the answer
        return answer

    def tell(self, news: News) -> bool:
        """See `ReaderTransport.tell`."""
        report = news()
        if report is not None:
            self._hear(report, self._reader, self)
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

    def take(self, notify: Notify, notifications: Sequence[Notification]) -> None:
        """Take the very objects that were published; runs in a thread of the publisher, and never waits.

        Args:
            notify: whose rows have no contents.
            notifications: those of its rows, shared by every subscription.
        """
        self._take(self, notify, notifications)

    def ended(self, reason: str) -> None:
        """The publisher has closed the link; called once."""
        self._reason = reason
        self.close()
