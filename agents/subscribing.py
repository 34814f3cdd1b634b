"""Subscribing: from a publisher's endpoint to a confirmed subscription, and again after its restart."""

from __future__ import annotations

import time
from typing import Any

from ..delivery.policies import Policy
from ..protocol.errors import CallTimeout, ConfigError, RemoteProtocolError
from ..protocol.frames import PZC01
from .counters import Counters
from .dispatch import Executor
from .links import inlets
from .loop import Loop
from .peers import Peer
from .requests import Requester
from .settings import TRANSPORTS
from .subscriber import Subscriber
from .subscription import Callback, Subscription
from .wire import Protocol

BROADCAST = ("auto", "tcp")
"""Transports by which lossy subscriptions take the broadcast plane; all others take a link."""

MEET_TIMEOUT = 5.0
"""Seconds that a restarted publisher has to answer and confirm."""


class Subscribing:
    """The subscriptions of one agent.

    Args:
        loop: owner of the socket.
        protocol: checks and decodes.
        counters: where everything is counted.
        requester: asks publishers.
    """

    def __init__(self, loop: Loop, protocol: Protocol, counters: Counters, requester: Requester) -> None:
        self._protocol = protocol
        self._requester = requester
        self._linked: dict[Subscription, None] = {}
        self.subscriber = Subscriber(loop, protocol, counters, self._meet_again)

    def subscribe(
        self,
        endpoint: str,
        topic: str,
        callback: Callback | None,
        policy: Policy,
        key: str | None,
        raw: bool,
        timeout: float,
        executor: Executor,
        transport: str = "auto",
        throttle: float | None = None,
    ) -> Subscription:
        """See `Agent.subscribe`."""
        if transport not in TRANSPORTS:
            raise ConfigError(
                f"transport={transport!r} cannot be used: expected one of {', '.join(TRANSPORTS)}"
            )
        deadline = time.monotonic() + timeout
        peer = self._requester.peer(endpoint, deadline)
        linked = not (policy.lossy and transport in BROADCAST)
        on_close = self._remove_linked if linked else self.subscriber.remove
        subscription = Subscription(
            peer.agent_id, topic, callback, policy, key, executor, on_close, raw, throttle
        )
        if linked:
            self._link(peer, subscription, transport, deadline)
            return subscription
        mark = self.subscriber.add(peer, subscription)
        try:
            if peer.dialect == PZC01:
                self._confirm(peer, topic, mark, deadline)
        except BaseException:
            subscription.close()
            raise
        return subscription

    def _link(self, peer: Peer, subscription: Subscription, transport: str, deadline: float) -> None:
        self._linked[subscription] = None
        try:
            inlets.subscribe(self._protocol, peer, subscription, transport, deadline)
        except BaseException:
            subscription.close()
            raise

    def _remove_linked(self, subscription: Subscription) -> None:
        self._linked.pop(subscription, None)
        inlets.remove(subscription)

    def subscriptions(self) -> list[Subscription]:
        """All open subscriptions."""
        return [*self.subscriber.subscriptions(), *self._linked.copy()]

    def _confirm(self, peer: Peer, topic: str, mark: str, deadline: float) -> None:
        content = {"pzc": "placed", "mark": mark, "topic": topic}
        while True:
            left = deadline - time.monotonic()
            answer: Any = self._requester.request(peer.endpoint, content, max(left, 0.001)).content
            if not isinstance(answer, dict):
                raise RemoteProtocolError(f"{peer.endpoint} did not confirm a subscription: {answer!r:.100}")
            if answer.get("placed"):
                self.subscriber.confirmed(peer, topic, mark, answer["epoch"], answer["last"])
                return
            if left <= 0:
                raise CallTimeout(f"{peer.endpoint} never saw the subscription at {peer.pub_endpoint}")
            now = self._requester.peer(peer.endpoint, deadline)
            if now.agent_id != peer.agent_id:  # restarted meanwhile, perhaps with another PUB endpoint
                self.subscriber.moved(peer.endpoint, now)
                peer = now

    def unsubscribe(self, publisher: str, topic: str) -> int:
        """Close the subscriptions to a topic of an agent; returns how many there were."""
        found = [each for each in self.subscriptions() if each.publisher == publisher and each.topic == topic]
        for subscription in found:
            subscription.close()
        return len(found)

    def _meet_again(self, endpoint: str) -> None:
        self._requester.forget(endpoint)
        deadline = time.monotonic() + MEET_TIMEOUT
        peer = self._requester.peer(endpoint, deadline)
        for topic, mark in self.subscriber.moved(endpoint, peer):
            self._confirm(peer, topic, mark, deadline)

    def statistics(self) -> list[dict[str, Any]]:
        """What each subscription has received and lost."""
        return [
            {"topic": s.topic, "publisher": s.publisher, "transport": s.transport,
             "received": s.received, "dropped": s.dropped, "pending": s.pending, "gaps": len(s.gaps),
             "link": inlets.statistics(s)}
            for s in self.subscriptions()
        ]  # fmt: skip

    def close(self) -> None:
        """Close every subscription."""
        for subscription in self.subscriptions():
            subscription.close()
        inlets.settle()

    def close_socket(self) -> None:
        """Close the SUB socket; I/O thread."""
        self.subscriber.close()
