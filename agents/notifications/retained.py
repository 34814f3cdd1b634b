"""Retained values: the publisher's side of ``subscribe(initial=True)``.

The frames that were published may be hours old, and a receiver refuses what is old. So the contents are
kept, and come anew with the answer that confirms an interest.
"""

from __future__ import annotations

from collections.abc import Collection

from ...delivery.kept import Kept
from ...protocol import limits
from ...protocol.link_messages import Row
from ...transport.counters import Counters
from ...transport.wire import Protocol
from .filters import ANY
from .links.published import Published
from .links.subscribers import Subscribers
from .links.topics import SCOPES

Body = tuple[str, bytes]
"""Serializer and encoded content; of what is too large, nothing."""

_TOO_LARGE: Body = "", b""


class RetainedValues:
    """What one publisher keeps; safe from any thread.

    Args:
        protocol: of the agent.
        subscribers: whose lock and numbers count.
        counters: where everything is counted.
    """

    def __init__(self, protocol: Protocol, subscribers: Subscribers, counters: Counters) -> None:
        self._protocol = protocol
        self._subscribers = subscribers
        self._counters = counters
        self._kept = Kept()

    def forget(self, topic: str) -> None:
        """The last notifications of a topic are not kept any more."""
        with self._subscribers.lock:
            self._kept.forget(topic)

    def encode(self, published: Published) -> Body:
        """What is to be kept of a notification.

        Raises:
            SerializeError: when the content cannot be expressed.
        """
        if published.serializer:
            name, body = published.serializer, published.body
        elif _size(published.content) > limits.current.retained_bytes:
            return _TOO_LARGE
        else:
            name, body = self._protocol.codec.pack_notification(published.content)
        return (name, bytes(body)) if len(body) <= limits.current.retained_bytes else _TOO_LARGE

    def keep(self, published: Published, encoded: Body) -> None:
        """The notification has its number; with the lock of the subscribers."""
        topic, key = published.topic, published.key
        name, body = encoded
        if not name:
            self._kept.leave_out(topic, key)
            self._counters.add("keep_refused")
            return
        evicted = self._kept.evicted
        self._kept.keep(topic, Row(published.number, published.sent_ms, key, name, body))
        if self._kept.evicted > evicted:
            self._counters.add("keep_evicted", self._kept.evicted - evicted)

    def of(self, topic: str, keys: Collection[str] | None, transport: str) -> list[tuple[str, list[Row]]]:
        """What is kept now, with the lock of the subscribers.

        Args:
            topic: one topic, or ``*`` for each that may go over this transport.
            keys: only of these; None for all.
            transport: ``inproc``, ``unix`` or ``tcp``.

        Returns:
            The topics of which something is kept, and that in the order of its numbers.
        """
        routes, topics = self._subscribers.routes, [topic] if topic != ANY else self._kept.topics
        topics = [each for each in topics if transport in SCOPES[routes.about(each).scope]]
        found = [(each, self._kept.of(each, keys)) for each in topics]
        return [(each, rows) for each, rows in found if rows]


def _size(content: object) -> int:
    """Bytes that a content surely has at least, without encoding it."""
    size = getattr(content, "nbytes", 0)
    if type(size) is int and size:
        return size
    return len(content) if isinstance(content, bytes | bytearray | str) else 0
