"""Mailing: the shortest way of a publication into the mailboxes of its topic, prepared for that topic.

::

    state      event                                        next
    -          published the general way, for mailboxes     prepared
               and no link only
    prepared   publish, small and without a key             prepared; numbered, and in every mailbox
    prepared   publish, large or with a key                 prepared; done as `Express` does
    prepared   links, mailboxes, topics, or what is said    stale; nothing was done: the general way
               of them, have changed

When every reader wants frames, the record is sealed here, once for all of them: so the I/O thread, which has
to get its turn from those that publish, only puts records together. For the same reason
whoever publishes faster than that gives way: as long as a reader fetches, and a whole answer waits for it,
the thread pauses for `PAUSE` s after every `SHARE` notifications. A reader that does not ask is not waited
for.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

from ....delivery.boxes import Box
from ....delivery.mail import BATCH_MESSAGES, Message
from ....delivery.mailboxes import Mailboxes
from ....protocol import serializers
from ....protocol.bundle import Body, Item, size_beside
from ....protocol.records import Records
from ....transport.loop import Loop
from ....transport.wire import Protocol, now_ms
from ...words import Request
from ..links.express import Express
from ..links.outlets import Outlets
from ..links.published import Published
from ..links.turns import Route
from .drafts import Draft

SMALL = 4096
"""Bytes of a content that goes this way; a larger one is sealed when somebody asks for it."""

SHARE = 64
"""Notifications between two pauses; a power of two."""

PAUSE = 50e-6
"""Seconds, at least, that the others get."""

FETCHING = 0.25
"""Seconds since its last poll for which a reader is taken to fetch on."""


class Mailing(Express):
    """Publishes one topic; any thread.

    Args:
        outlets: whose lock, numbers and meters count.
        topic: neither empty nor reserved.
        route: of the topic, without links.
        version: of the routes when that was looked up.
        loop: whose thread gives no way.
        boxes: the mailboxes of the agent.
        protocol: of the agent.
        records: makes frames of what it publishes.
        answer_soon: called with the lock when a poll can be answered.
        answer_together: the same, when only readers of frames can.
    """

    __slots__ = (
        "_answer_soon", "_answer_together", "_beside", "_boxes", "_loop", "_name", "_readers", "_records",
    )  # fmt: skip

    def __init__(
        self,
        outlets: Outlets,
        topic: str,
        route: Route,
        version: int,
        loop: Loop,
        boxes: Mailboxes[Draft, Request],
        protocol: Protocol,
        records: Records,
        answer_soon: Callable[[], object],
        answer_together: Callable[[], object],
    ) -> None:
        super().__init__(outlets, topic, route, version, True)
        self._loop = loop
        self._boxes = boxes
        self._readers = boxes.interests.matching(topic, None)
        self._name = protocol.codec.serializer
        self._beside = size_beside(topic, "")
        self._answer_soon, self._answer_together = answer_soon, answer_together
        self._records = records

    def publish(self, content: object, key: str) -> Published | None:
        """As `Express.publish`."""
        if key:
            return super().publish(content, key)
        since, name = monotonic(), self._name
        body = serializers.encode_small(content) if name == "pickle" else serializers.encode(name, content)
        if body is None or len(body) > SMALL:
            return super().publish(content, key)
        body = bytes(body)
        outlets, topic = self._outlets, self._topic
        with outlets.lock:
            if outlets.routes.version != self._version:
                return None
            numbers = outlets.numbers
            number, sent_ms = numbers.get(topic, 0) + 1, now_ms()
            self._put(number, sent_ms, body, since)
            numbers[topic] = number
            outlets.meters[topic].add(since, 1, len(body))
        if not number & SHARE - 1:
            self._give_way(since)
        return Published(topic, key, content, name, body, None, number, sent_ms)

    def _put(self, number: int, sent_ms: int, body: Body, now: float) -> None:
        topic, size, boxes, readers = self._topic, len(body), self._boxes, self._readers
        draft = Draft(Item(topic, number, "", sent_ms, 0, self._name, body))
        if False not in [box.raw for box in readers]:
            draft.seal(self._records)
            message = Message(topic, None, number, size + self._beside, draft, now)
            for box in readers:
                boxes.put(box, message)
            if boxes.eventful:
                self._answer_together()
        else:
            boxes.publish(topic, None, number, size, draft, now, self._beside)
            if boxes.eventful:
                self._answer_soon()

    def _give_way(self, now: float) -> None:
        if any(_fetches(box, now) for box in self._readers) and not self._loop.in_thread():
            sleep(PAUSE)


def _fetches(box: Box[Draft, Request], now: float) -> bool:
    kept = box.mailbox
    return box.held is None and now - box.polled_at < FETCHING and kept.next > kept.sent + BATCH_MESSAGES
