"""Keeping: the publisher's side of ``subscribe(initial=True)``.

::

    word                                         answer
    {"pzc": "kept", "topic": t, "key": k or     a bundle: what is kept of the topic, and the last number of
     None}                                       each topic, both of one moment

The frames that were published may be hours old, and a receiver refuses what is old. So the contents are
kept, and sent anew inside an answer that is signed, fresh and addressed like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...delivery.kept import Kept
from ...protocol import limits, serializers
from ...protocol.bundle import Bundle, Item, Last
from ...protocol.errors import RemoteProtocolError
from ...protocol.link_messages import MAX_ITEMS
from ...protocol.shown import shown
from ...transport.counters import Counters
from ...transport.wire import Protocol
from ..words import Replies, Request
from .filters import ANY
from .links.outlets import Outlets
from .links.published import Published
from .links.topics import SCOPES

if TYPE_CHECKING:
    from collections.abc import Iterable

Body = tuple[str, bytes]
"""Serializer and encoded content; of what is too large, nothing."""

_TOO_LARGE: Body = "", b""


class Keeping:
    """What one publisher keeps; safe from any thread.

    Args:
        protocol: of the agent.
        outlets: whose lock and numbers count.
        counters: where everything is counted.
    """

    def __init__(self, protocol: Protocol, outlets: Outlets, counters: Counters) -> None:
        self._protocol = protocol
        self._outlets = outlets
        self._counters = counters
        self._topics: frozenset[str] = frozenset()
        self._kept = Kept()

    def advertise(self, topic: str, keep: bool) -> None:
        """Whether the last notifications of a topic are kept from now on."""
        with self._outlets.lock:
            self._topics = self._topics | {topic} if keep else self._topics - {topic}
            if not keep:
                self._kept.forget(topic)

    def keeps(self, topic: str) -> bool:
        """Whether the last notifications of a topic are kept."""
        return topic in self._topics

    def encode(self, published: Published) -> Body | None:
        """What is to be kept of a notification; None when nothing of its topic is.

        Raises:
            SerializeError: when the content cannot be expressed.
        """
        if published.topic not in self._topics:
            return None
        if published.serializer:
            name, body = published.serializer, published.body
        elif _size(published.content) > limits.current.retained_bytes:
            return _TOO_LARGE
        else:
            name = self._protocol.codec.serializer
            body = serializers.encode(name, published.content)
        return (name, bytes(body)) if len(body) <= limits.current.retained_bytes else _TOO_LARGE

    def keep(self, published: Published, encoded: Body) -> None:
        """The notification has its number; with the lock of the outlets."""
        topic, key = published.topic, published.key
        name, body = encoded
        if topic not in self._topics:
            return
        if not name:
            self._kept.leave_out(topic, key)
            self._counters.add("keep_refused")
            return
        evicted = self._kept.evicted
        self._kept.keep(Item(topic, published.number, key, published.sent_ms, name, body))
        if self._kept.evicted > evicted:
            self._counters.add("keep_evicted", self._kept.evicted - evicted)

    def look(self, topic: str, key: str | None, way: str) -> Bundle:
        """What is kept now, and the last numbers.

        Args:
            topic: one topic, or ``*`` for each that may go this way.
            key: only of this key; None for all.
            way: ``inproc``, ``unix`` or ``tcp``.

        Raises:
            PolicyRefused: for a topic that does not go this way.
        """
        routes, numbers = self._outlets.routes, self._outlets.numbers
        if topic != ANY:
            routes.about(topic).check_way(topic, way)
        with self._outlets.lock:
            topics: Iterable[str] = (topic,)
            if topic == ANY:
                topics = [each for each in numbers if way in SCOPES[routes.about(each).scope]][:MAX_ITEMS]
            items = [item for each in topics for item in self._kept.of(each, key)]
            lasts = [Last(each, numbers.get(each, 0)) for each in topics]
        return Bundle(items, lasts)

    def answer(self, replies: Replies, request: Request, content: dict[str, Any]) -> None:
        """Answer the word ``kept``.

        Raises:
            PolicyRefused: as `look`.
            RemoteProtocolError: for a request of another form.
        """
        topic, key = content.get("topic"), content.get("key")
        if type(topic) is not str or not topic or not (key is None or type(key) is str):
            raise RemoteProtocolError(f"what is kept was asked for in an unknown form: {shown(content, 200)}")
        way = "tcp" if request.connection is None else "unix"
        replies.send(request, request.seal(self.look(topic, key, way), "bundle"))


def _size(content: object) -> int:
    """Bytes that a content surely has at least, without encoding it."""
    size = getattr(content, "nbytes", 0)
    if type(size) is int and size:
        return size
    return len(content) if isinstance(content, bytes | bytearray | str) else 0
