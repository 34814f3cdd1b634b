"""Inlets: the links of this process at their readers, shared by all its agents.

A subscription takes the first link to its publisher that fits, and opens one when there is none::

    transport   takes a link that was opened     else opens
    auto        by any way                       inproc, unix or tcp: the first that works
    inproc      inproc                           inproc, or PeerLost
    unix        unix                             unix, or PeerLost
    tcp         tcp                              tcp

Agents share a link when their protocols send and accept the same, whatever the policies of their
subscriptions. A link ends with its last subscription; a forked child begins with none.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Hashable
from typing import Any

from ....protocol.errors import CallTimeout, PolicyRefused, Refused, SubscriptionClosed
from ....protocol.frames import PZC01
from ....protocol.peer import Peer
from ....transport.descriptors import Starved
from ....transport.tables import Table
from ....transport.wire import Protocol
from ...interfaces import NewClient
from ..subscription import Subscription
from .inlet import Inlet

logger = logging.getLogger("pzc.links")

JOIN_TIMEOUT = 2.0
"""Seconds that ended links may take to give back what they had."""

Key = tuple[str, Hashable]


class _Table(Table):
    """Every link of the process, by publisher and protocol."""

    def begin(self) -> None:
        super().begin()
        self._opening: weakref.WeakValueDictionary[Key, threading.Lock] = weakref.WeakValueDictionary()
        self.inlets: dict[Inlet, Hashable] = {}
        self.of: dict[Subscription, Inlet] = {}

    def fitting(self, key: Key, transport: str) -> Inlet | None:
        """A link to that publisher that a subscription may take."""
        agent_id, kind = key
        with self.lock:
            for inlet, its in self.inlets.items():
                if (
                    its == kind
                    and inlet.peer.agent_id == agent_id
                    and transport in ("auto", inlet.wanted)
                    and not inlet.ended
                ):
                    return inlet
        return None

    def opening(self, key: Key) -> threading.Lock:
        """Held by the one thread that looks for a link to that publisher and opens it."""
        with self.lock:
            return self._opening.setdefault(key, threading.Lock())

    def enter(self, inlet: Inlet, kind: Hashable) -> None:
        with self.lock:
            self.inlets[inlet] = kind

    def leave(self, inlet: Inlet) -> None:
        with self.lock:
            self.inlets.pop(inlet, None)


_table = _Table()


def check(peer: Peer, subscription: Subscription) -> None:
    """Whether a link can serve a subscription.

    Raises:
        PolicyRefused: saying what it cannot have over a link.
    """
    if subscription.raw:
        raise PolicyRefused("raw frames come by broadcast notifications only: use drop(n) or latest(k)")
    if peer.dialect != PZC01:
        raise PolicyRefused(
            f"{peer.endpoint} is an original Pizco, which offers broadcast notifications only: "
            "use drop(n) or latest(k)"
        )


def subscribe(
    new_client: NewClient,
    protocol: Protocol,
    peer: Peer,
    subscription: Subscription,
    transport: str,
    deadline: float,
) -> None:
    """Put a subscription on a link to its publisher; returns when that has confirmed it.

    Args:
        new_client: makes the client of a new link.
        protocol: of the agent that subscribes.
        peer: the publisher.
        subscription: new.
        transport: ``auto``, ``inproc``, ``unix`` or ``tcp``.
        deadline: in monotonic seconds.

    Raises:
        PolicyRefused: when the publisher does not offer what is asked for.
        PeerLost: when it cannot be reached that way.
        CallTimeout: when it did not confirm by the deadline.
    """
    check(peer, subscription)
    key = (peer.agent_id, protocol.fingerprint)
    opening = _table.opening(key)
    if not opening.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise CallTimeout(f"the link to {peer.endpoint} is being opened by another thread, which takes long")
    try:
        inlet = _table.fitting(key, transport)
        if inlet is None:
            try:
                inlet = _open(new_client, protocol, peer, transport, deadline)
            except (Refused, Starved) as exc:
                if transport != "auto" or type(exc) not in (Refused, Starved):
                    raise
                logger.info("the link to %s goes over tcp: %s", peer.endpoint, exc)
                inlet = _open(new_client, protocol, peer, "tcp", deadline)
    finally:
        opening.release()
    _table.of[subscription] = inlet
    try:
        inlet.add(subscription, deadline)
    except SubscriptionClosed:  # it ended at this moment
        subscribe(new_client, protocol, peer, subscription, transport, deadline)
    except BaseException:
        _table.of.pop(subscription, None)
        raise


def _open(new_client: NewClient, protocol: Protocol, peer: Peer, transport: str, deadline: float) -> Inlet:
    inlet = Inlet(new_client, protocol, peer, _table.leave)
    inlet.start(transport, deadline)
    _table.enter(inlet, protocol.fingerprint)
    return inlet


def remove(subscription: Subscription) -> None:
    """A subscription was closed; any thread, its own callback included."""
    inlet = _table.of.pop(subscription, None)
    if inlet is not None:
        inlet.remove(subscription)


def move(subscription: Subscription, endpoint: str) -> None:
    """The publisher of a subscription is at another endpoint now; its link, and all that share it, follow."""
    inlet = _table.of.get(subscription)
    if inlet is not None:
        inlet.move(endpoint)


def settle(timeout: float = JOIN_TIMEOUT) -> None:
    """Wait until the links that have ended gave back everything, but for the one of this very thread."""
    deadline = time.monotonic() + timeout
    with _table.lock:
        ended = [inlet for inlet in _table.inlets if inlet.ended]
    for inlet in ended:
        inlet.join(max(0.0, deadline - time.monotonic()))


def statistics(subscription: Subscription) -> dict[str, Any] | None:
    """What the link of a subscription is and saw; None without one."""
    inlet = _table.of.get(subscription)
    return None if inlet is None else inlet.statistics()


@atexit.register
def _close_all() -> None:
    with _table.lock:
        inlets = list(_table.inlets)
    for inlet in inlets:
        for subscription in inlet.subscriptions():
            with contextlib.suppress(Exception):
                subscription.close()
    settle()
