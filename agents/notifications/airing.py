"""Airing: the shortest way of a publication to the broadcast plane, prepared for its topic.

::

    state      event                                        next
    -          published the general way, for PZC01 only    prepared
    prepared   publish, small and without a key             prepared; numbered, and on its way
    prepared   publish, with a key                          prepared; nothing was done: the general way
    prepared   publish, too large                           unfit; nothing was done: the general way, from
                                                            now on
    prepared   links, topics, or what is said of them       stale; nothing was done: the general way
               have changed

It is prepared for topics that have readers of PZC01 on the broadcast plane and nobody else: no link, no
mailbox, no throttle, nothing that is kept. A filter that comes or goes forgets it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from ...protocol.broadcast import Broadcast, is_usual
from ...protocol.frames import Buffer
from ...transport.wire import Protocol
from .links.outlets import Outlets

Emit = Callable[[str, int, list[Buffer], float], object]
"""Sends a message: its topic, number and frames, and monotonic seconds."""


class Airing:
    """Publishes one topic; any thread.

    Args:
        outlets: whose lock, numbers and meters count.
        topic: neither empty nor reserved.
        broadcast: makes the frames.
        publishing: held while a number is taken and its message sent, so that they go in order.
        emit: sends; called with that lock.
        version: of the routes when they were looked up.
    """

    __slots__ = ("_broadcast", "_emit", "_outlets", "_publishing", "_topic", "_version", "unfit")

    def __init__(
        self,
        outlets: Outlets,
        topic: str,
        broadcast: Broadcast,
        publishing: threading.RLock,
        emit: Emit,
        version: int,
    ) -> None:
        self._outlets = outlets
        self._topic = topic
        self._broadcast = broadcast
        self._publishing = publishing
        self._emit = emit
        self._version = version
        self.unfit = False

    @property
    def is_stale(self) -> bool:
        """True when links, topics or what is said of them have changed."""
        return self._outlets.routes.version != self._version

    def publish(self, content: object) -> int:
        """Number and send a notification without a key.

        Returns:
            Its number; 0 when it is not to be done here, and nothing was done.

        Raises:
            SerializeError: when the content cannot be expressed.
            AgentClosed: when it could not be sent any more.
        """
        outlets, topic, broadcast = self._outlets, self._topic, self._broadcast
        if self.unfit or outlets.routes.version != self._version:
            return 0
        body = broadcast.encode(content)
        if body is None:
            self.unfit = True
            return 0
        with self._publishing:
            numbers, now = outlets.numbers, monotonic()
            number = numbers.get(topic, 0) + 1
            frames = broadcast.frames(number, body)
            with outlets.lock:
                if outlets.routes.version != self._version or numbers.get(topic, 0) + 1 != number:
                    return 0
                numbers[topic] = number
                outlets.meters[topic].add(now, 1, len(body))
            self._emit(topic, number, frames, now)
        return number


def prepare(
    outlets: Outlets, protocol: Protocol, sender: str, topic: str, publishing: threading.RLock, emit: Emit
) -> Airing | None:
    """The airing of a topic that is broadcast in PZC01 only; None when it needs the general way."""
    version = outlets.routes.version  # before the rest: whatever changes from now on makes it stale
    about = outlets.routes.about(topic)
    if about.throttle is not None or about.ack_wait is not None or outlets.routes.of(topic).legs:
        return None
    if (outlets.mail and outlets.mail.wants(topic)) or not is_usual(protocol.codec, sender, topic):
        return None
    broadcast = Broadcast(protocol.codec, sender, topic, protocol.new_urn)
    return Airing(outlets, topic, broadcast, publishing, emit, version)
