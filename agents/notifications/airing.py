"""Airing: the shortest way of a publication to the broadcast plane, prepared for its topic.

::

    state      event                                        next
    -          published the general way, for PZC01 only    prepared
    prepared   publish, without a key                       prepared; numbered, and on its way
    prepared   publish, with a key                          prepared; nothing was done: the general way
    prepared   links, topics, or what is said of them       stale; nothing was done: the general way
               have changed

It is prepared for topics that have readers of PZC01 on the broadcast plane and nobody else: no link, no
mailbox, no throttle, nothing that is kept. A filter that comes or goes forgets it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from ...protocol import serializers
from ...protocol.codec import Codec, too_large
from ...protocol.frames import Buffer
from ...protocol.records import Records
from ...transport.wire import now_ms
from .links.outlets import Outlets

Emit = Callable[[str, int, list[Buffer], float], object]
"""Sends a message: its topic, number and frames, and monotonic seconds."""


class Airing:
    """Publishes one topic; any thread.

    Args:
        outlets: whose lock, numbers and meters count.
        topic: neither empty nor reserved.
        records: makes the frames.
        serializer: of the contents.
        most: bytes of a content.
        publishing: held while a number is taken and its message sent, so that they go in order.
        emit: sends; called with that lock.
        version: of the routes when they were looked up.
    """

    __slots__ = ("_emit", "_most", "_outlets", "_publishing", "_records", "_serializer", "_topic", "_version")

    def __init__(
        self,
        outlets: Outlets,
        topic: str,
        records: Records,
        serializer: str,
        most: int,
        publishing: threading.RLock,
        emit: Emit,
        version: int,
    ) -> None:
        self._outlets = outlets
        self._topic = topic
        self._records = records
        self._serializer = serializer
        self._most = most
        self._publishing = publishing
        self._emit = emit
        self._version = version

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
            LocalProtocolError: when the wire cannot carry it.
            AgentClosed: when it could not be sent any more.
        """
        outlets, topic, name = self._outlets, self._topic, self._serializer
        if outlets.routes.version != self._version:
            return 0
        body = serializers.encode(name, content)
        if len(body) > self._most:
            raise too_large(len(body), self._most)
        with self._publishing:
            numbers, now = outlets.numbers, monotonic()
            number = numbers.get(topic, 0) + 1
            frames = self._records.seal(topic, number, "", now_ms(), name, body)
            with outlets.lock:
                if outlets.routes.version != self._version or numbers.get(topic, 0) + 1 != number:
                    return 0
                numbers[topic] = number
                outlets.meters[topic].add(now, 1, len(body))
            self._emit(topic, number, list(frames), now)
        return number


def prepare(
    outlets: Outlets,
    codec: Codec,
    records: Records,
    topic: str,
    publishing: threading.RLock,
    emit: Emit,
) -> Airing | None:
    """The airing of a topic that is broadcast in PZC01 only; None when it needs the general way."""
    version = outlets.routes.version  # before the rest: whatever changes from now on makes it stale
    about = outlets.routes.about(topic)
    if about.throttle is not None or about.ack_wait is not None or outlets.routes.of(topic).outlets:
        return None
    if outlets.mail and outlets.mail.wants(topic):
        return None
    return Airing(outlets, topic, records, codec.serializer, codec.max_content, publishing, emit, version)
