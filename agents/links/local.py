"""Local: the publishers of this process, found by readers of the same process.

A reader that finds a publisher here opens its link by calling `Linking.attach`, gets notifications by
`LocalInlet.take` in the thread that publishes, and tells what it is done with by `Linking.acknowledge`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..notifying.subscription import Notification
    from .linking import Linking


class LocalInlet(Protocol):
    """The reader's end of a link inside one process."""

    def take(self, link_number: int, notification: Notification, lost: int) -> None:
        """Take the very object that was published; runs in some thread of the publisher, and never waits.

        Args:
            link_number: 1, 2, ... of the link, for `Linking.acknowledge`.
            notification: shared by every subscription.
            lost: notifications of its topic that were dropped since the one before.
        """
        ...

    def tell(self, topic: str, number: int, lost: int) -> None:
        """The topic's last number, and how many before it were dropped; as `take`."""
        ...

    def ended(self, reason: str) -> None:
        """The publisher has closed the link; called once, not after `Linking.detach`."""
        ...


class _Here:
    """Publishers of this process by agent id, with the fingerprint of the agent's protocol."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.offered: dict[str, tuple[Linking, Hashable]] = {}


_here = _Here()
os.register_at_fork(after_in_child=_here.forget)


def offer(agent_id: str, linking: Linking, fingerprint: Hashable) -> None:
    """An agent of this process takes local links from now on."""
    with _here.lock:
        _here.offered[agent_id] = linking, fingerprint


def withdraw(agent_id: str) -> None:
    """An agent takes no more local links."""
    with _here.lock:
        _here.offered.pop(agent_id, None)


def find(agent_id: str, fingerprint: Hashable) -> Linking | None:
    """Where links to an agent of this process are opened; None when it is not here.

    Args:
        agent_id: of the publisher.
        fingerprint: of the reader's protocol; whoever sends and accepts something else is a stranger, as
            over the wire.
    """
    with _here.lock:
        linking, theirs = _here.offered.get(agent_id, (None, None))
    return linking if theirs == fingerprint else None


def is_here(agent_id: str) -> bool:
    """True for an agent of this process."""
    return agent_id in _here.offered
