"""Open links: the links of this process at their readers, shared by all its agents.

A subscription takes the first link to its publisher that fits, and opens one when there is none::

    transport   takes a link that was opened     else opens
    auto        by any way                       inproc, unix or tcp: the first that works
    inproc      inproc                           inproc, or PeerLost
    unix        unix                             unix, or PeerLost
    tcp         tcp                              tcp

Agents share a link when their protocols send and accept the same, whatever the policies of their
subscriptions; but mailboxes have links of their own, over unix or tcp: for the process's own as above, and
one for each name, whatever its way, because a name has one reader. A link ends with its last subscription; a
forked child begins with none. A mailbox with a name outlives the end of the agent, or of the process, but not
that of its last subscription by `Subscription.close`.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Hashable, Iterable
from typing import Any

from ....protocol.errors import CallTimeout, PolicyRefused, Refused, SubscriptionClosed
from ....transport.descriptors import Starved
from ....transport.peer import Peer
from ....transport.tables import Table
from ....transport.threads import acquired
from ....transport.wire import Protocol
from ..subscription import Subscription
from .link import Link

logger = logging.getLogger("pzc.links")

JOIN_TIMEOUT = 2.0
"""Seconds that ended links may take to give back what they had."""

Key = tuple[str, Hashable, str | None]
"""Agent id of the publisher, the reader's protocol, and the name of the mailbox, if it is one."""


class _Table(Table):
    """Every link of the process, by publisher and protocol."""

    def begin(self) -> None:
        super().begin()
        self._opening: weakref.WeakValueDictionary[Key, threading.Lock] = weakref.WeakValueDictionary()
        self.links: dict[Link, Hashable] = {}
        self.of: dict[Subscription, Link] = {}

    def fitting(self, key: Key, transport: str) -> Link | None:
        """A link to that publisher that a subscription may take."""
        agent_id, kind, mailbox = key
        for link, its in self.links.copy().items():
            if (
                its == kind
                and (link.peer.agent_id, link.mailbox) == (agent_id, mailbox)
                and (transport in ("auto", link.wanted) or mailbox)
                and not link.ended
            ):
                return link
        return None

    def opening(self, key: Key) -> threading.Lock:
        """Held by the one thread that looks for a link to that publisher and opens it."""
        with self.lock:
            return self._opening.setdefault(key, threading.Lock())


_table = _Table()


def _check(peer: Peer, subscription: Subscription, transport: str) -> None:
    if subscription.policy.name == "mailbox":
        if transport == "inproc":
            raise PolicyRefused("a mailbox goes over unix or tcp, in one process too: use transport='auto'")
        return
    if subscription.raw:
        raise PolicyRefused(
            "raw frames come with a mailbox, or with drop(n) and latest(k) by broadcast: from a publisher "
            "that has a PUB port and signs with a key that is held here"
        )


def subscribe(
    protocol: Protocol,
    peer: Peer,
    subscription: Subscription,
    transport: str,
    deadline: float,
) -> None:
    """Put a subscription on a link to its publisher; returns when that has confirmed it.

    Args:
        protocol: of the agent that subscribes.
        peer: the publisher.
        subscription: new.
        transport: ``auto``, ``inproc``, ``unix`` or ``tcp``.
        deadline: in monotonic seconds.

    Raises:
        PolicyRefused: when the publisher does not offer what is asked for, or a link cannot have it.
        Refused: when the mailbox is somebody else's.
        PeerLost: when it cannot be reached that way.
        CallTimeout: when it did not confirm by the deadline.
        SubscriptionClosed: when it was closed meanwhile.
    """
    _check(peer, subscription, transport)
    mailbox = (subscription.policy.durable or "") if subscription.policy.name == "mailbox" else None
    key = (peer.agent_id, protocol.fingerprint, mailbox)
    opening = _table.opening(key)
    if not acquired(opening, max(0.0, deadline - time.monotonic())):
        raise CallTimeout(f"the link to {peer.endpoint} is being opened by another thread, which takes long")
    try:
        link = _table.fitting(key, transport)
        if link is None:
            try:
                link = _open(protocol, peer, mailbox, transport, deadline)
            except (Refused, Starved) as exc:
                if transport != "auto" or type(exc) not in (Refused, Starved):
                    raise
                logger.info("the link to %s goes over tcp: %s", peer.endpoint, exc)
                link = _open(protocol, peer, mailbox, "tcp", deadline)
    finally:
        opening.release()
    _table.of[subscription] = link
    try:
        link.add(subscription, deadline)
    except SubscriptionClosed:  # the link ended at this moment, or the subscription
        if not subscription.closed:
            subscribe(protocol, peer, subscription, transport, deadline)
    except BaseException:
        _table.of.pop(subscription, None)
        raise
    if subscription.closed:  # meanwhile, perhaps before it had a link
        remove(subscription)
        raise SubscriptionClosed(f"the subscription to {subscription.topic!r} was closed before it began")


def _open(
    protocol: Protocol, peer: Peer, mailbox: str | None, transport: str,
    deadline: float,
) -> Link:  # fmt: skip
    link = Link(protocol, peer, lambda link: _table.links.pop(link, None), mailbox)
    link.start(transport, deadline)
    _table.links[link] = protocol.fingerprint
    return link


def remove(subscription: Subscription) -> None:
    """A subscription was closed; any thread, its own callback included."""
    link = _table.of.pop(subscription, None)
    if link is not None:
        link.remove(subscription)


def park(subscriptions: Iterable[Subscription]) -> None:
    """These are to end with their agent or process: mailboxes with a name are kept for the next one."""
    ending = set(subscriptions)
    for link in {link for each in ending if (link := _table.of.get(each)) is not None}:
        if link.mailbox:
            link.park(ending)


def move(subscription: Subscription, endpoint: str) -> None:
    """The publisher of a subscription is at another endpoint now; its link, and all that share it, follow."""
    link = _table.of.get(subscription)
    if link is not None:
        link.move(endpoint)


def settle(timeout: float = JOIN_TIMEOUT) -> None:
    """Wait until the links that have ended gave back everything, but for the one of this very thread."""
    deadline = time.monotonic() + timeout
    for link in [each for each in _table.links.copy() if each.ended]:
        link.join(max(0.0, deadline - time.monotonic()))


def statistics(subscription: Subscription) -> dict[str, Any] | None:
    """What the link of a subscription is and saw; None without one."""
    link = _table.of.get(subscription)
    return None if link is None else link.statistics()


@atexit.register
def _close_all() -> None:
    subscriptions = [each for link in _table.links.copy() for each in link.subscriptions()]
    park(subscriptions)
    for subscription in subscriptions:
        with contextlib.suppress(Exception):
            subscription.close()
    settle()
