"""Subscribing: from a publisher's endpoint to a confirmed subscription, and again after its restart.

A lossy subscription takes a link inside the process or the host, else the broadcast plane; one whose filter
never reaches the publisher's PUB port takes a link over tcp in the end. With ``transport="tcp"`` it is
broadcast, or nothing. One of keys, of a type, or that begins with what is retained, takes a link, whatever
its transport: only a link tells, and sorts, what broadcast does not::

    state       event                                           next
    -           a link may be near (`_near`)                    near
    -           none may                                        broadcast
    near        confirmed                                       open
    near        it cannot be opened, or is refused, or is       broadcast
                silent until `LINK_TIME` before the end
    broadcast   confirmed                                       open
    broadcast   unconfirmed, `LINK_TIME` before the end         link, with what is left of the time
    broadcast   the publisher is not heard any more (`_hears`)  link
    link        confirmed                                       open
    link        refused                                         CallTimeout, which tells of the PUB port
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, cast

from ...delivery.policies import Policy
from ...protocol.errors import AgentClosed, CallTimeout, ConfigError, PeerLost, Refused, RemoteProtocolError
from ...protocol.shown import shown
from ...transport.counters import Counters
from ...transport.endpoints import is_direct
from ...transport.peer import Peer
from ...transport.settings import Settings
from ...transport.wire import Protocol
from ..client.client import Client
from ..compat.bare import Bare
from ..compat.pizco_client import check_subscription
from ..naming.follower import Follower
from ..naming.watching import Watching
from . import receiver
from .callbacks import Runs
from .columns import Sink
from .keys import Keys
from .links import inside, open_links
from .merged import Make, Member, Merged
from .readers import who_of
from .sub_socket import SubSocket, check_topic
from .subscription import Callback, Subscription

logger = logging.getLogger("pzc.subscriber")

OnClose = Callable[[Subscription], None]
_Made = Callable[[Peer, OnClose], Subscription]

BROADCAST = ("auto", "tcp")
"""Transports by which lossy subscriptions may take the broadcast plane; all others take a link."""

LINK_TIME = 2.0
"""Seconds, at most half of those given, that are kept for a link in the place of broadcast notifications."""

MEET_TIMEOUT = 5.0
"""Seconds that a restarted publisher has to answer and confirm."""


class Subscribing:
    """The subscriptions of one agent.

    Args:
        protocol: checks and decodes.
        counters: where everything is counted.
        client: asks publishers.
        settings: what holds where no argument says otherwise.
        name: of the agent, for people.

    Attributes:
        merged: open subscriptions that are made of others.
        bare: meets publishers, those that are a PUB socket only, too.
    """

    def __init__(
        self, protocol: Protocol, counters: Counters, client: Client, settings: Settings, name: str,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._protocol = protocol
        self._client = client
        self._counters = counters
        self._linked: dict[Subscription, None] = {}
        self._forced: weakref.WeakSet[Subscription] = weakref.WeakSet()  # to tcp
        self._followers: dict[Subscription, Follower] = {}
        self.merged: dict[Subscription, None] = {}
        self.bare = Bare(protocol, client)
        self._who = who_of(name)
        self._broadcasts = threading.Lock()
        self._sub_socket: SubSocket | None = None
        self._closed = False
        self._on_close = self._remove  # one for all

    def subscribe(
        self,
        endpoint: str,
        topic: str,
        callback: Callback | None,
        policy: Policy,
        key: Keys,
        raw: bool,
        timeout: float,
        executor: Runs,
        transport: str | None = None,
        throttle: float | None = None,
        initial: bool = False,
        type: str = "",
        make: Make = Subscription,
        ignore_local: bool = False,
        manual_ack: bool = False,
        sink: Sink | None = None,
    ) -> Subscription:
        """See `Agent.subscribe`; ``make`` makes the subscription."""
        deadline = time.monotonic() + timeout
        peer = self._client.peer(endpoint, deadline)
        check_topic(peer, topic)
        kept, forced = policy.name == "mailbox", transport == "tcp"
        if not peer.native:
            check_subscription(peer, policy, transport, initial)
        if transport is None:
            linkable = peer.native and (kept or not raw)
            transport = self.usual_transport if linkable else "auto"
            if kept and transport == "inproc":  # no way of a mailbox, and nobody asked it of this one
                transport = "auto"
        initial = initial and not (ignore_local and peer.agent_id in inside.offered)
        if initial and raw:
            raise ConfigError("raw frames are not kept by their publisher: omit initial=True or raw=True")
        by_link = peer.native and not raw and (initial or bool(type) or key is not None)
        linked = by_link or not (policy.lossy and transport in BROADCAST and self._hears(peer))

        def made(peer: Peer, on_close: OnClose) -> Subscription:
            one = make(peer.agent_id, topic, callback, policy, key, executor, on_close, raw, throttle)
            one.ignores_local, one.manual_ack, one.type = ignore_local, manual_ack, type
            one.initial, one.sink = initial, sink
            if forced:
                self._forced.add(one)
            return one

        if linked:
            try:
                return self._begin(peer, made, transport or "auto", deadline)
            except PeerLost:
                self._client.forget(endpoint)
                now = self._client.peer(endpoint, deadline)
                if now.agent_id == peer.agent_id:
                    raise
            return self._begin(now, made, transport or "auto", deadline)  # it was restarted
        if forced or raw or not peer.native:
            return self._begin(peer, made, "", deadline)
        return self._begin_lossy(peer, made, topic, transport == "auto", deadline)

    def _begin_lossy(
        self, peer: Peer, made: _Made, topic: str, may_be_near: bool, deadline: float
    ) -> Subscription:
        """See the module's docstring."""
        endpoint, near = peer.endpoint, self._near(peer) if may_be_near else ""
        reserve = min(LINK_TIME, (deadline - time.monotonic()) / 2)
        if near:
            try:
                return self._begin(peer, made, near, deadline, reserve)
            except (PeerLost, Refused, CallTimeout) as exc:
                logger.info("%r of %s comes by broadcast: %s", topic, endpoint, exc)
        try:
            return self._begin(peer, made, "", deadline, reserve)
        except CallTimeout as unplaced:  # kept no longer: its traceback holds this frame
            try:
                now = self._client.peer(endpoint, deadline)
                subscription = self._begin(now, made, "tcp", deadline)
            except Refused as exc:
                raise unplaced from exc
            self._counters.add("broadcast_replaced")
            logger.warning("%r of %s comes over a link: %s", topic, endpoint, unplaced)
            return subscription

    def _hears(self, peer: Peer) -> bool:
        """Whether broadcasts of a publisher can be heard and verified here."""
        verified = not peer.native or self._protocol.verifies(peer.publishing)
        return verified and bool(peer.pub_endpoint)

    def _near(self, peer: Peer) -> str:
        """How a link to a publisher may go inside this process or host; empty when it cannot."""
        if not is_direct(peer):
            return ""
        if inside.find(peer.agent_id, self._protocol.fingerprint) is not None:
            return "inproc"
        return "unix" if peer.has_lane else ""

    def _begin(
        self, peer: Peer, make: _Made, transport: str, deadline: float, reserve: float = 0.0
    ) -> Subscription:
        """A confirmed subscription by a way of links, or with none by broadcast, in time for a reserve."""
        subscription = make(peer, self._on_close)
        subscription.arrivals.offset_ms = peer.offset_ms
        subscription.who = self._who
        try:
            if transport:
                self._linked[subscription] = None
                self._check_open()  # by now `close` would find it
                open_links.subscribe(self._protocol, peer, subscription, transport, deadline - reserve)
            else:
                self._broadcast(peer, subscription, deadline - reserve)
        except BaseException:
            subscription.close()
            raise
        return subscription

    def follow(self, watching: Watching, make: Callable[[OnClose], Merged], timeout: float) -> Merged:
        """A subscription made of others, whose sources are kept; errors as `Watching.begin`."""

        def on_close(merged: Subscription) -> None:
            self.merged.pop(merged, None)
            watching.close()

        merged = make(on_close)
        self.merged[merged] = None
        try:
            self._check_open()  # by now `close` would find it
            watching.begin(merged, timeout)
        except BaseException:
            merged.close()
            raise
        return merged

    @property
    def usual_transport(self) -> str:
        """The transport when no argument names one."""
        return self._settings["PZC_TRANSPORT"]

    @property
    def sub_socket(self) -> SubSocket:
        """What hears broadcasts, made when it is needed first; AgentClosed or BindError when it cannot be."""
        with self._broadcasts:
            if self._sub_socket is None:
                self._check_open()
                self._sub_socket = SubSocket(
                    receiver.acquire(), self._protocol, self._counters, self._meet_again, self._who
                )
            return self._sub_socket

    def _check_open(self) -> None:
        if self._closed:
            raise AgentClosed("the agent was stopped; it subscribes to nothing more")

    def _broadcast(self, peer: Peer, subscription: Subscription, deadline: float) -> None:
        mark = self.sub_socket.add(peer, subscription)
        if peer.native:
            self._confirm(peer, subscription.topic, mark, deadline)
            if subscription.refusal is not None:
                raise subscription.refusal

    def keep(self, subscription: Subscription, follower: Follower) -> None:
        """Follow a publisher for as long as a subscription is open."""
        self._followers[subscription] = follower
        if subscription.closed:
            self._leave(subscription)

    def _leave(self, subscription: Subscription) -> None:
        if (follower := self._followers.pop(subscription, None)) is not None:
            follower.close()

    def _remove(self, subscription: Subscription) -> None:
        self._leave(subscription)
        if subscription in self._linked:
            self._linked.pop(subscription, None)
            open_links.remove(subscription)
        elif self._sub_socket is not None:
            self._sub_socket.remove(subscription)

    def move(self, subscription: Subscription, before: str, endpoint: str) -> None:
        """A publisher is at another endpoint than before, perhaps as another agent; not the I/O thread.

        Raises:
            PzcError: when it could not be reached, or did not confirm; to be called again then.
        """
        if subscription in self._linked:
            open_links.move(subscription, endpoint)
        elif not subscription.closed:
            self._meet_again(endpoint, before)

    def subscriptions(self) -> list[Subscription]:
        """All open subscriptions."""
        heard = () if self._sub_socket is None else self._sub_socket.subscriptions()
        return list(dict.fromkeys((*heard, *self._linked.copy())))

    def _confirm(self, peer: Peer, topic: str, mark: str, deadline: float) -> None:
        content = {"pzc": "placed", "mark": mark, "topic": topic}
        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                answer: object = self._client.request(peer.endpoint, content, left).content
            except CallTimeout as exc:
                raise CallTimeout(
                    f"{peer.endpoint} never saw the subscription at {peer.pub_endpoint}: is that port open? "
                    "An agent with single_port=True needs no other port than its REP endpoint's"
                ) from exc
            if not isinstance(answer, dict):
                text = f"{peer.endpoint} did not confirm a subscription: {shown(answer, 100)}"
                raise RemoteProtocolError(text)
            told = cast("dict[str, Any]", answer)
            if told.get("placed") is True:
                self.sub_socket.confirmed(peer, topic, mark, told)
                return
            now = self._client.peer(peer.endpoint, deadline)
            if not self._hears(now):
                raise CallTimeout(f"{peer.endpoint} was restarted and is heard no more: subscribe again")
            if now.agent_id != peer.agent_id:  # restarted meanwhile, perhaps with another PUB endpoint
                self.sub_socket.moved(peer.endpoint, now)
                peer = now

    def unsubscribe(self, publisher: str, topic: str) -> int:
        """Close the subscriptions to a topic of an agent; returns how many there were."""
        found = [
            each for each in self.subscriptions()
            if each.publisher == publisher and each.topic == topic and not isinstance(each, Member)
        ]  # fmt: skip
        for subscription in found:
            subscription.close()
        return len(found)

    def disperse(self, pattern: str, topic: str) -> int:
        """Close the subscriptions to a topic that were made with a pattern; returns how many there were."""
        found = [each for each in list(self.merged) if (each.publisher, each.topic) == (pattern, topic)]
        for subscription in found:
            subscription.close()
        return len(found)

    def _meet_again(self, endpoint: str, before: str = "") -> None:
        deadline = time.monotonic() + MEET_TIMEOUT
        peer = self.bare.meet(endpoint, deadline)
        if peer.native and not self._hears(peer):
            for subscription in self.sub_socket.followers(before or endpoint):
                self._take_a_link(peer, subscription, deadline)
            return
        for topic, mark in self.sub_socket.moved(before or endpoint, peer):
            self._confirm(peer, topic, mark, deadline)

    def _take_a_link(self, peer: Peer, subscription: Subscription, deadline: float) -> None:
        """The publisher was restarted without broadcasts: a subscription goes on over a link, or ends.

        Raises:
            PzcError: when there is none now; to be called again then.
        """
        self.sub_socket.restart(subscription, peer.agent_id)
        transport = "tcp" if subscription in self._forced else "auto"
        try:
            open_links.subscribe(self._protocol, peer, subscription, transport, deadline)
        except Refused as exc:
            subscription.refuse(exc)
            return
        self.sub_socket.remove(subscription)
        self._linked[subscription] = None
        if subscription.closed:  # meanwhile
            self._remove(subscription)

    def statistics(self) -> list[dict[str, Any]]:
        """What each subscription has received and lost, and how fast, large and old it was."""
        now = time.monotonic()
        return [
            {"topic": s.topic, "publisher": s.publisher, "transport": s.transport, "policy": s.policy.name,
             "received": s.received, "dropped": s.dropped, "throttled": s.throttled, "ignored": s.ignored,
             "pending": s.pending, "gaps": len(s.gaps), **s.arrivals.statistics(now),
             "link": open_links.statistics(s)}
            for s in self.subscriptions()
        ]  # fmt: skip

    def close(self) -> None:
        """Close every subscription, and make no other."""
        with self._broadcasts:
            self._closed = True
        open_links.park(self.subscriptions())
        for subscription in [*self.merged, *self.subscriptions()]:
            subscription.close()
        open_links.settle()

    def close_socket(self) -> None:
        """Hear broadcasts no longer; not in the receiver's thread."""
        if self._sub_socket is not None:
            self._sub_socket.close()
