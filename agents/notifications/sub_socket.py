"""SubSocket: the SUB socket of an agent, and who of this process gets what.

::

    source     event                                       next
    absent     first subscription to an agent              connected (filter set, mark confirmed)
    connected  another agent answers at its REP endpoint   moved: filters follow, one restart gap
                                                           per subscription
    connected  last subscription closed                    absent (filters removed)

`subscribe` returns when the publisher has confirmed that it holds the filter: the first
notification afterwards is not lost. A message is verified and decoded once, however many
subscriptions it has. Whether the publisher is still there is watched by `presence`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import zmq

from ...protocol import limits
from ...protocol.errors import (
    AgentClosed,
    LocalProtocolError,
    RemoteProtocolError,
)
from ...protocol.shown import shown
from ...transport import families
from ...transport.counters import Counters
from ...transport.endpoints import connect, disconnect, new_socket
from ...transport.peer import Peer
from ...transport.wire import Protocol
from . import presence
from .broadcast_in import BroadcastIn, Source
from .declared import mismatch
from .filters import ANY, MARK_TOPIC, mark_filter
from .heartbeat import BEAT_TOPIC, beat_filter
from .receiver import Receiver, release
from .shares import BroadcastShare
from .subscription import Subscription


class SubSocket:
    """One SUB socket, made with the first subscription. All its state belongs to the receiver's thread.

    Args:
        receiver: reads the socket; taken over.
        protocol: checks and decodes.
        counters: where everything is counted.
        meet: called by a helper with the REP endpoint of a publisher that may have been
            replaced; shakes hands anew and calls `moved`.
        who: what publishers know this agent by, to count it once.
    """

    def __init__(
        self, receiver: Receiver, protocol: Protocol, counters: Counters, meet: Callable[[str], None],
        who: str,
    ) -> None:  # fmt: skip
        self._receiver = receiver
        self._loop = receiver.loop
        self._presence = presence.Presence(receiver, counters, meet, self._rep_endpoints, self._lost)
        self._sources: dict[str, Source] = {}
        self._shares: dict[Subscription, BroadcastShare] = {}
        self._marked: dict[str, BroadcastShare] = {}
        self._uses: Counter[str] = Counter()
        self._places: dict[str, str] = {}  # to which address each PUB endpoint is connected
        self._socket: zmq.Socket[bytes] | None = None
        self._closed = False
        self._who = who
        self._marks = itertools.count(1)
        self._incoming = BroadcastIn(self._loop, protocol, counters, self._sources, self._presence.ask)

    def add(self, peer: Peer, subscription: Subscription) -> str:
        """Route a publisher's topic to a subscription and set its filter; any thread.

        Returns:
            The mark that follows the filter: once the publisher has it, it has the filter.

        Raises:
            LocalProtocolError: for a topic that cannot be published.
            RemoteProtocolError: when the publisher names a PUB endpoint that cannot be used.
            AgentClosed: after `close`.
        """
        check_topic(peer, subscription.topic)
        share = BroadcastShare(subscription, peer, f"{self._who}.{next(self._marks)}")
        self._presence.learn(peer.pub_endpoint)
        self._loop.run(partial(self._add, share))
        return share.mark

    def _add(self, share: BroadcastShare) -> None:
        if self._closed:
            raise AgentClosed("the agent was stopped; it subscribes to nothing more")
        _begin_unconfirmed(share)
        source = self._sources.get(share.peer.agent_id) or Source(share.peer)
        share.peer = source.peer
        self._set_filters(source.peer, share)
        self._shares[share.subscription] = self._marked[share.mark] = share
        self._route(source, share)

    def _route(self, source: Source, share: BroadcastShare) -> None:
        self._incoming.forget()
        self._sources[source.peer.agent_id] = source
        source.shares[share.subscription.topic].append(share)

    def confirmed(self, peer: Peer, topic: str, mark: str, told: dict[str, Any]) -> None:
        """The publisher holds the filter, and ``last`` was the topic's last number until then.

        Args:
            peer: the publisher.
            topic: of the subscription.
            mark: of the subscription.
            told: its answer: ``epoch``, ``types``, and as ``last`` a number, or for ``*`` one for each topic.

        Raises:
            RemoteProtocolError: for an answer of another form.
        """
        epoch, last = told.get("epoch"), told.get("last")
        lasts: dict[str, Any] = cast("dict[str, Any]", last) if isinstance(last, dict) else {topic: last}
        if not isinstance(epoch, int) or not all(isinstance(number, int) for number in lasts.values()):
            raise RemoteProtocolError(
                f"{peer.endpoint} confirmed {topic!r} with {shown(epoch)}, {shown(cast('object', last), 200)}"
            )
        self._loop.run(partial(self._begin, mark, epoch, lasts, told.get("types")))

    def _begin(self, mark: str, epoch: int, lasts: dict[str, int], types: object) -> None:
        share = self._marked.get(mark)
        if share is None:
            return
        subscription, said = share.subscription, ""
        if (source := self._sources.get(subscription.publisher)) is not None:
            source.peer.learn(types)
            said = source.peer.types.get(subscription.topic, "")
        if said and subscription.type not in ("", said):
            subscription.refuse(mismatch(subscription.topic, subscription.type, said))
        elif share.held:
            share.begin(epoch, lasts)

    def _set_filters(self, peer: Peer, share: BroadcastShare) -> None:
        socket = self._open()
        if not self._uses[peer.pub_endpoint]:
            self._presence.watch(peer.pub_endpoint)
            try:
                self._connect(socket, peer.pub_endpoint)
            except zmq.ZMQError as exc:
                self._presence.unwatch(peer.pub_endpoint)
                raise RemoteProtocolError(
                    f"{peer.endpoint} publishes at {shown(peer.pub_endpoint)}, which cannot be used: {exc}"
                ) from exc
        self._uses[peer.pub_endpoint] += 1
        for prefix in _filters(peer, share):
            socket.setsockopt(zmq.SUBSCRIBE, prefix)

    def _connect(self, socket: zmq.Socket[bytes], pub_endpoint: str) -> None:
        self._places[pub_endpoint] = connect(socket, pub_endpoint)

    def _disconnect(self, socket: zmq.Socket[bytes], pub_endpoint: str) -> None:
        # Polling makes libzmq begin a message; if its connection is taken away now, libzmq aborts.
        self._incoming.take(socket)
        disconnect(socket, self._places.pop(pub_endpoint))

    def _reconnect(self, pub_endpoint: str) -> None:
        """If its host name leads to another address now, which libzmq never looks at."""
        connected = self._places.get(pub_endpoint)
        if self._socket is not None and connected not in (None, families.place(pub_endpoint)):
            self._disconnect(self._socket, pub_endpoint)
            self._connect(self._socket, pub_endpoint)

    def _open(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            socket = new_socket(self._loop.context, zmq.SUB)
            self._presence.open(socket)
            self._loop.register(socket, self._on_readable, looks=True)
            self._socket = socket
        return self._socket

    def _remove_filters(self, peer: Peer, share: BroadcastShare) -> None:
        if self._socket is None:
            return
        for prefix in _filters(peer, share):
            self._socket.setsockopt(zmq.UNSUBSCRIBE, prefix)
        endpoint = peer.pub_endpoint
        self._uses[endpoint] -= 1
        if not self._uses[endpoint]:
            del self._uses[endpoint]
            self._presence.unwatch(endpoint)
            self._disconnect(self._socket, endpoint)

    def remove(self, subscription: Subscription) -> None:
        """Forget a closed subscription; any thread."""
        self._loop.call(partial(self._remove, subscription))

    def _remove(self, subscription: Subscription) -> None:
        share = self._shares.pop(subscription, None)
        if share is None:
            return
        del self._marked[share.mark]
        self._incoming.forget()
        source, topic = self._sources[share.peer.agent_id], subscription.topic
        source.shares[topic].remove(share)
        if not source.shares[topic]:
            del source.shares[topic]
        if not source.shares:
            del self._sources[source.peer.agent_id]
        self._remove_filters(share.peer, share)

    def _on_readable(self) -> bool:
        return self._socket is not None and self._incoming.on_readable(self._socket)

    def _rep_endpoints(self, pub_endpoint: str) -> set[str]:
        return {s.peer.endpoint for s in self._sources.values() if s.peer.pub_endpoint == pub_endpoint}

    def _lost(self, pub_endpoint: str) -> None:
        for source in [s for s in self._sources.values() if s.peer.pub_endpoint == pub_endpoint]:
            reason = f"{source.peer.endpoint} has been unreachable for {limits.current.silence:g} s"
            for share in source.everyone():
                share.subscription.report_lost(reason)

    def followers(self, endpoint: str) -> list[Subscription]:
        """The subscriptions to whoever is known at a REP endpoint; any thread."""
        return self._loop.run(partial(self._followers, endpoint))

    def _followers(self, endpoint: str) -> list[Subscription]:
        sources = [each for each in self._sources.values() if each.peer.endpoint == endpoint]
        return [share.subscription for source in sources for share in source.everyone()]

    def moved(self, endpoint: str, peer: Peer) -> list[tuple[str, str]]:
        """The agent behind a REP endpoint answered a new handshake as ``peer``; any thread but I/O.

        Returns:
            Topic and mark of each of its subscriptions that is to be confirmed now.
        """
        self._presence.learn(peer.pub_endpoint)
        return self._loop.run(partial(self._moved, endpoint, peer))

    def _moved(self, endpoint: str, peer: Peer) -> list[tuple[str, str]]:
        self._incoming.forget()
        self._reconnect(peer.pub_endpoint)
        for source in [s for s in self._sources.values() if s.peer.endpoint == endpoint]:
            known = source.peer
            if (known.agent_id, known.pub_endpoint) == (peer.agent_id, peer.pub_endpoint):
                peer.learn(known.types)
                source.peer = peer
                continue
            target = self._sources.get(peer.agent_id) if known.agent_id != peer.agent_id else None
            self._move(source, target or Source(peer))
        now = self._sources.get(peer.agent_id)
        held = [share for share in now.everyone() if share.held] if now is not None else []
        return [(share.subscription.topic, share.mark) for share in held]

    def _move(self, source: Source, target: Source) -> None:
        for share in source.everyone():  # first: where an endpoint cannot be used, nothing changes
            self._set_filters(target.peer, share)
        del self._sources[source.peer.agent_id]
        for share in source.everyone():
            self._remove_filters(share.peer, share)
            share.peer = target.peer
            self._route(target, share)
            share.restart(target.peer.agent_id)
            _begin_unconfirmed(share)

    def restart(self, subscription: Subscription, publisher: str) -> None:
        """Another agent took the place of a subscription's publisher; any thread."""
        self._loop.run(partial(self._restart, subscription, publisher))

    def _restart(self, subscription: Subscription, publisher: str) -> None:
        share = self._shares.get(subscription)
        if share is not None:
            share.restart(publisher)

    def close(self) -> None:
        """End every subscription, close the socket, and give the receiver back; not in its thread."""
        try:
            self._loop.run(self._close)
        finally:
            release(self._receiver)

    def _close(self) -> None:
        self._closed = True
        for subscription in list(self._shares):
            subscription.end()
        self._sources.clear()
        self._shares.clear()
        self._marked.clear()
        if self._socket is not None:
            self._presence.close()
            self._loop.unregister(self._socket)
            self._socket.close(0)
            self._socket = None

    def subscriptions(self) -> list[Subscription]:
        """All open subscriptions."""
        return [subscription for subscription in list(self._shares) if not subscription.closed]


def check_topic(peer: Peer, topic: str) -> None:
    """Judge a topic.

    Raises:
        LocalProtocolError: when it cannot be published.
    """
    if topic in ("", MARK_TOPIC, BEAT_TOPIC):
        raise LocalProtocolError(f"nothing is ever published as topic {topic!r}")
    peer.filter(topic)


def _begin_unconfirmed(share: BroadcastShare) -> None:
    if not share.peer.native:  # it confirms nothing
        share.begin(share.peer.epoch, {})


def _filters(peer: Peer, share: BroadcastShare) -> list[bytes]:
    topic = share.subscription.topic
    first = peer.filter("" if topic == ANY else topic)
    if not peer.native:
        return [first]
    return [first, beat_filter(peer.agent_id), mark_filter(peer.agent_id, share.mark, topic)]
