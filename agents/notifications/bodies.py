"""Bodies: a notification's content, encoded once for whoever gets the same, and its frames, sealed once."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...protocol import serializers
from ...protocol.bundle import Body, Item, Record
from ...protocol.codec import too_large
from ...protocol.frames import Buffer
from ...protocol.records import Records
from ...transport.wire import Protocol
from .keeping import Keeping
from .links.outlets import Outlets
from .links.turns import Route, Turn
from .voices import Voice

Outgoing = tuple[str, int, list[Buffer]]
"""Frames behind the topic and number that a beat is to tell; an empty topic for none."""


class Plan(NamedTuple):
    """What publishing one topic takes; valid until links, mailboxes, filters, or what is said of it change.

    Attributes:
        version: of the routes.
        heard: version of the filters.
        route: the links that it goes to.
        readers: the mailboxes that it goes to.
        voices: in which it is broadcast.
        encodes: a content is encoded for others than those that listen to the broadcast.
        waits: somebody may have to be waited for.
        throttled: it may be one too many.
        kept: the last of each key is kept.
        ack_wait: seconds to wait for links, unless a publication says others.
    """

    version: int
    heard: int
    route: Route
    readers: tuple[Any, ...]
    voices: tuple[Voice, ...]
    encodes: bool
    waits: bool
    throttled: bool
    kept: bool
    ack_wait: float | None


def plan_of(topic: str, outlets: Outlets, heard: int, voices: tuple[Voice, ...], kept: bool) -> Plan:
    """What publishing a topic takes now."""
    with outlets.lock:
        about, mail = outlets.routes.about(topic), outlets.mail
        route, readers = outlets.routes.of(topic), () if mail is None else mail.readers_of(topic)
        waits = route.waits or (mail is not None and bool(readers) and mail.may_block)
        return Plan(
            outlets.routes.version, heard, route, readers, voices,
            route.remote or bool(readers) or kept, waits, about.throttle is not None, kept, about.ack_wait,
        )  # fmt: skip


class Bodies:
    """Makes what goes out of one publisher; any thread.

    Args:
        protocol: encodes for originals.
        records: makes frames.
        outlets: encodes for links.
        keeping: what is kept for readers to come.
        own: voice in which frames are those of the records.
    """

    def __init__(
        self, protocol: Protocol, records: Records, outlets: Outlets, keeping: Keeping, own: Voice
    ) -> None:
        self._protocol = protocol
        self._records = records
        self._outlets = outlets
        self._keeping = keeping
        self._own = own

    def prepare(self, turn: Turn, plan: Plan) -> None:
        """Encode for links, mailboxes and what is kept.

        Raises:
            SerializeError: when the content cannot be expressed.
            LocalProtocolError: when it is too large.
        """
        published, outlets = turn.published, self._outlets
        if plan.route.remote:
            outlets.prepare(turn)
        if plan.readers and outlets.mail is not None:
            outlets.mail.prepare(turn, plan.readers)
        if plan.kept:
            turn.kept = self._keeping.encode(published)

    def seal(self, voice: Voice, turn: Turn, number: int) -> Outgoing:
        """Frames for broadcast; errors as `prepare`."""
        published, (dialect, sender) = turn.published, voice
        topic, key = published.topic, published.key
        if voice == self._own:
            name, body = turn.aired = turn.aired or self._air(turn)
            return topic, number, [*self._records.seal(topic, number, key, published.sent_ms, name, body)]
        content = published.content
        return "", number, self._protocol.encode(
            sender, topic, content, sequence=number, key=key, dialect=dialect
        )  # fmt: skip

    def _air(self, turn: Turn) -> tuple[str, Body]:
        """The content for broadcast, as it was encoded for others where that is the same."""
        published, codec = turn.published, self._protocol.codec
        name = codec.serializer
        if published.serializer == name and published.slot is None:
            body = published.body
        elif turn.mail is not None and turn.mail[0] == name:
            body = turn.mail[1]
        else:
            body = serializers.encode(name, published.content)
        if len(body) > codec.max_content:
            raise too_large(len(body), codec.max_content)
        return name, body

    def record(self, turn: Turn, number: int, outgoing: list[Outgoing]) -> None:
        """Seal it for mailboxes that want frames: as it is broadcast, where that is the same."""
        published, mail = turn.published, turn.mail
        if mail is None:
            return
        topic, key, sent_ms = published.topic, published.key, published.sent_ms
        item = turn.item = Item(topic, number, key, sent_ms, *mail)
        if turn.aired is not None and turn.aired[0] == mail[0]:
            own = next(frames for told, _, frames in outgoing if told)
            msgid, signature = bytes(own[3]), bytes(own[4])
            turn.record = Record(topic, number, key, sent_ms, mail[0], own[2], msgid, signature)
        else:
            turn.record = self._records.record(item)
