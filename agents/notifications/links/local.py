"""Local: the publishers of this process, found by readers of the same process.

A reader that finds a publisher here says everything by calling `Linking.hear`, and gets notifications by
`LocalReader.take` in the thread that publishes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from ....protocol.link_messages import LinkMessage, Notify
from ....protocol.notification import Notification
from ....transport.tables import Offers


class LocalReader(Protocol):
    """The reader's end of a link inside one process."""

    def take(self, notify: Notify, notifications: Sequence[Notification]) -> None:
        """Take the very objects that were published; runs in some thread of the publisher, and never waits.

        Args:
            notify: whose rows have no contents.
            notifications: those of its rows, shared by every subscription.
        """
        ...

    def ended(self, reason: str) -> None:
        """The publisher has closed the link; called once."""
        ...


class LocalLinks(Protocol):
    """The publisher's end of links inside one process: `Linking`."""

    def hear(self, message: LinkMessage, reader: str, link: LocalReader) -> LinkMessage:
        """What a reader says; returns the answer. Arguments and errors as `Linking.hear`."""
        ...


offered: Offers[tuple[LocalLinks, Hashable]] = Offers()
"""Publishers of this process, each with the fingerprint of its agent's protocol."""


def find(agent_id: str, fingerprint: Hashable) -> LocalLinks | None:
    """Where links to an agent of this process are opened; None when it is not here.

    Args:
        agent_id: of the publisher.
        fingerprint: of the reader's protocol; whoever sends and accepts something else is a stranger, as
            over the wire.
    """
    linking, theirs = offered.get(agent_id) or (None, None)
    return linking if theirs == fingerprint else None
