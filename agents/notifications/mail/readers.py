"""Readers: the mailboxes that this process reads, shared by all its agents.

A process has one mailbox at a publisher for all its topics and keys, and one more for each name. Agents share
it when their protocols send and accept the same. It ends with its last subscription; a forked child begins
with none. One with a name outlives the end of the agent, or of the process, but not that of its last
subscription by `Subscription.close`.
"""

from __future__ import annotations

import atexit
import contextlib
import time
from collections.abc import Hashable, Iterable

from ....protocol.errors import PolicyRefused, SubscriptionClosed
from ....protocol.frames import PZC01
from ....protocol.peer import Peer
from ....transport.tables import Table
from ....transport.wire import Protocol
from ...interfaces import NewClient
from ..subscription import Subscription
from .reader import Reader

JOIN_TIMEOUT = 2.0
"""Seconds that ended mailboxes may take to give back what they had."""

WAYS = ("auto", "tcp", None)


class _Table(Table):
    """Every reader of the process, by protocol."""

    def begin(self) -> None:
        super().begin()
        self.readers: dict[Reader, Hashable] = {}

    def of(self, subscription: Subscription) -> Reader | None:
        """That of a subscription, unless it was the parent's of this forked process."""
        reader: Reader | None = subscription.reader
        return reader if reader in self.readers else None

    def reader(self, new_client: NewClient, protocol: Protocol, peer: Peer, name: str | None) -> Reader:
        """That of a publisher and a name, or a new one."""
        with self.lock:
            for reader, its in self.readers.items():
                fits = its == protocol.fingerprint and reader.name == name and not reader.ended
                if fits and reader.peer.agent_id == peer.agent_id:
                    return reader
            made = Reader(new_client, protocol, peer, name, self.leave)
            self.readers[made] = protocol.fingerprint
            return made

    def leave(self, reader: Reader) -> None:
        with self.lock:
            self.readers.pop(reader, None)


_table = _Table()


def subscribe(
    new_client: NewClient,
    protocol: Protocol,
    peer: Peer,
    subscription: Subscription,
    transport: str,
    deadline: float,
) -> None:
    """Put a subscription on the mailbox at its publisher; returns when that has confirmed it.

    Args:
        new_client: makes the client of a new mailbox.
        protocol: of the agent that subscribes.
        peer: the publisher.
        subscription: new.
        transport: ``auto`` or ``tcp``.
        deadline: in monotonic seconds.

    Raises:
        PolicyRefused: when the publisher does not offer what is asked for.
        Refused: when the mailbox is somebody else's.
        PeerLost: when it cannot be reached.
        CallTimeout: when it did not confirm by the deadline.
    """
    if peer.dialect != PZC01:
        raise PolicyRefused(f"{peer.endpoint} is an original Pizco, which keeps no mailboxes: use drop(n)")
    if transport not in WAYS:
        raise PolicyRefused(f"a mailbox is read over tcp, not over {transport}: use transport='auto'")
    while True:
        reader = _table.reader(new_client, protocol, peer, subscription.policy.durable)
        subscription.reader = reader
        try:
            reader.add(subscription, deadline)
            return
        except SubscriptionClosed:  # it ended at this moment
            if subscription.closed or time.monotonic() > deadline:
                raise
        except BaseException:
            subscription.reader = None
            raise


def remove(subscription: Subscription) -> None:
    """A subscription was closed; any thread, its own callback included."""
    reader, subscription.reader = _table.of(subscription), None
    if reader is not None:
        reader.remove(subscription)


def park(subscriptions: Iterable[Subscription]) -> None:
    """These are to end with their agent or process: mailboxes with a name are kept for the next one."""
    ending = set(subscriptions)
    for reader in {reader for each in ending if (reader := _table.of(each)) is not None}:
        if reader.name is not None:
            reader.park(ending)


def move(subscription: Subscription, endpoint: str) -> bool:
    """The publisher of a subscription is at another endpoint now; False when it reads no mailbox.

    Raises:
        PzcError: when it could not be reached.
    """
    reader = _table.of(subscription)
    if reader is not None:
        reader.move(endpoint)
    return reader is not None


def settle(timeout: float = JOIN_TIMEOUT) -> None:
    """Wait until the readers that have ended gave back everything."""
    deadline = time.monotonic() + timeout
    with _table.lock:
        ended = [reader for reader in _table.readers if reader.ended]
    for reader in ended:
        reader.join(max(0.0, deadline - time.monotonic()))


@atexit.register
def _close_all() -> None:
    subscriptions = [place.subscription for reader in list(_table.readers) for place in reader.places()]
    park(subscriptions)
    for subscription in subscriptions:
        with contextlib.suppress(Exception):
            subscription.close()
    settle()
