"""Making: notifications and bursts out of what came over a line in one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....delivery.mail import Message
from ....protocol import serializers
from ....protocol.bundle import Item, Record
from ....protocol.errors import ProtocolError, SerializerRefused
from ....protocol.frames import Kind
from ....protocol.notification import Notification
from ....protocol.peer import Peer
from ....protocol.records import Opener
from ....transport.counters import Counters
from ....transport.wire import Protocol
from .bursts import Burst


class Making:
    """What is known of all messages of one answer.

    Args:
        protocol: what is accepted.
        counters: where refused messages are counted.
        peer: the publisher.
        epoch: of the numbering.
        key_id: of the key that signed the answer; empty for one that none signed.
        received_at: Unix seconds.
    """

    def __init__(
        self, protocol: Protocol, counters: Counters, peer: Peer, epoch: int, key_id: str, received_at: float
    ) -> None:
        self._protocol = protocol
        self._counters = counters
        self._peer = peer
        self._epoch = epoch
        self._key_id = key_id
        self._trusted = key_id in protocol.codec.trusted
        self._received_at = received_at
        self._opener = Opener(peer.agent_id, epoch, key_id)

    def raw(self, item: Item) -> Notification:
        """A notification with its frames.

        Raises:
            RemoteProtocolError: for frames that do not belong to it.
        """
        try:
            header, name, body, msgid, signature = self._opener.frames(item)
        except ProtocolError:
            self._counters.add("notifications_refused")
            raise
        peer = self._peer
        return Notification(
            peer.agent_id, peer.name, item.topic, item.key, item.number, self._epoch, item.sent_ms / 1000,
            self._received_at, None, self._key_id, (header, name, bytes(body), msgid, signature),
            size=len(body), type=peer.types.get(item.topic, ""), partition=peer.partition,
        )  # fmt: skip

    def plain(self, item: Item, initial: bool = False) -> Notification:
        """A notification with its content; ``initial``: it is what was retained.

        Raises:
            SerializerRefused, DecodeError: when that is not decoded here.
        """
        name, accepted = item.serializer, self._protocol.codec.accept_serializers
        if name not in accepted and serializers.family(name) not in accepted:
            self._counters.add("notifications_refused")
            raise SerializerRefused(f"serializer {name[:40]!r} is not accepted here")
        body = item.body
        if isinstance(item, Record) and item.sealed:
            frames = self._opener.frames(item)
            body = self._protocol.open(frames, Kind.NOTIFICATION, judge_time=False).content
        content = serializers.decode(name, body, trusted=self._trusted)
        peer = self._peer
        return Notification(
            peer.agent_id, peer.name, item.topic, item.key, item.number, self._epoch, item.sent_ms / 1000,
            self._received_at, content, self._key_id, initial=initial, size=len(body),
            type=peer.types.get(item.topic, ""), partition=peer.partition,
        )  # fmt: skip

    def burst(
        self, messages: Sequence[Message[Item]], done: Callable[[], object]
    ) -> tuple[Burst, list[tuple[Item, ProtocolError]]]:
        """A burst of what is good of messages, and what is wrong with the others."""
        items = [message.payload for message in messages]
        found = self._opener.headers(items)
        refused = list[tuple[Item, ProtocolError]]()
        if found is None:
            items, found, refused = self._sift(items)
            self._counters.add("notifications_refused", len(refused))
        peer = self._peer
        burst = Burst(
            peer.agent_id, peer.name, self._epoch, self._key_id, self._received_at, found,
            [item for item in items if isinstance(item, Record)], done,
        )  # fmt: skip
        return burst, refused

    def _sift(self, items: list[Item]) -> tuple[list[Item], list[bytes], list[tuple[Item, ProtocolError]]]:
        good, headers, refused = list[Item](), list[bytes](), list[tuple[Item, ProtocolError]]()
        for item in items:
            try:
                headers.append(self._opener.frames(item)[0])
                good.append(item)
            except ProtocolError as exc:
                refused.append((item, exc))
        return good, headers, refused
