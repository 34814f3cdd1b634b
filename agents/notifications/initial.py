"""Initial: what a publisher kept, asked for when a subscription begins. See `keeping`."""

from __future__ import annotations

import logging
import time

from ...delivery.cursor import Gap
from ...protocol import serializers
from ...protocol.bundle import Bundle, Item
from ...protocol.errors import CallTimeout, ConfigError, ProtocolError, Refused, SerializerRefused
from ...protocol.frames import PZC00
from ...protocol.notification import Notification
from ...protocol.peer import Peer
from ...protocol.shown import printable
from ...transport.counters import Counters
from ...transport.wire import Protocol
from ..interfaces import Client
from .links import local
from .subscription import Subscription

logger = logging.getLogger("pzc.subscriber")


class Initial:
    """Asks publishers for what they keep; safe from any thread.

    Args:
        protocol: decodes.
        counters: where everything is counted.
        client: asks.
    """

    def __init__(self, protocol: Protocol, counters: Counters, client: Client) -> None:
        self._protocol = protocol
        self._counters = counters
        self._client = client

    def check(self, peer: Peer, raw: bool) -> None:
        """Whether a publisher can be asked.

        Raises:
            Refused: an original Pizco keeps nothing.
            ConfigError: for raw frames, of which none are kept.
        """
        if peer.dialect == PZC00:
            raise Refused(f"{peer.endpoint} is an original Pizco, which keeps nothing: omit initial=True")
        if raw:
            raise ConfigError("raw frames are not kept by their publisher: omit initial=True or raw=True")

    def fill(self, peer: Peer, subscription: Subscription, deadline: float) -> None:
        """Begin a confirmed subscription with what its publisher keeps.

        Args:
            peer: the publisher.
            subscription: that waits for it.
            deadline: in monotonic seconds.

        Raises:
            CallTimeout, PeerLost: when the publisher did not answer.
            Refused: when it does not know the question.
        """
        here = local.find(peer.agent_id, self._protocol.fingerprint)
        if subscription.transport == "inproc" and here is not None:
            told, trusted = here.keeping.look(subscription.topic, _asked(subscription), "inproc"), True
        else:
            told, trusted = self._ask(peer, subscription, deadline)
        received_at = time.time()
        lasts = {last.topic: last.number for last in told.lasts}
        epoch = peer.epoch
        wanted = subscription.key if isinstance(subscription.key, frozenset) else None
        items = [item for item in told.items if wanted is None or item.key in wanted]
        kept = [self._read(peer, item, trusted, received_at) for item in items]
        subscription.begin_kept(epoch, lasts, kept)

    def _ask(self, peer: Peer, subscription: Subscription, deadline: float) -> tuple[Bundle, bool]:
        left = deadline - time.monotonic()
        if left <= 0:
            raise CallTimeout(f"{peer.endpoint} did not tell in time what it keeps of {subscription.topic!r}")
        content = {"pzc": "kept", "topic": subscription.topic, "key": _asked(subscription)}
        reply = self._client.request(peer.endpoint, content, left)
        if not isinstance(reply.content, Bundle):
            raise Refused(f"{peer.endpoint} keeps no last notifications: leave out initial=True")
        # Another agent in the publisher's place has other numbers, and a subscription of its own to begin.
        return (reply.content if reply.sender == peer.agent_id else Bundle()), (
            reply.trusted and peer.publishing in self._protocol.codec.trusted
        )

    def _read(self, peer: Peer, item: Item, trusted: bool, received_at: float) -> Notification | Gap:
        name = item.serializer
        try:
            accepted = self._protocol.codec.accept_serializers
            if name not in accepted and serializers.family(name) not in accepted:
                raise SerializerRefused(f"serializer {name[:40]!r} is not accepted here")
            content = serializers.decode(name, item.body, trusted=trusted)
        except ProtocolError as exc:
            self._counters.add("notifications_refused")
            self._counters.add(f"refused_{type(exc).__name__}")
            logger.warning("%s of %s is lost here: %s", printable(item.topic), peer.endpoint, exc)
            return Gap(peer.epoch, item.number, item.number)
        return Notification(
            peer.agent_id, peer.name, item.topic, item.key, item.number, peer.epoch, item.sent_ms / 1000,
            received_at, content, peer.publishing, initial=True, size=len(item.body),
            type=peer.types.get(item.topic, ""), partition=peer.partition,
        )  # fmt: skip


def _asked(subscription: Subscription) -> str | None:
    """The one key that it wants; of several keys it sorts out what is kept itself."""
    return subscription.key if isinstance(subscription.key, str) else None
