"""Turns: one publication on its way to the links of its topic."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from ....delivery.claims import Interest
from ....protocol.bundle import Body, Item, Record
from .outlet import Outlet
from .published import Published


class Route(NamedTuple):
    """Where a topic goes.

    Attributes:
        outlets: every link that wants it, or some of its keys; those that are suspended count it.
        claims: of each of them, what gets a message without a key.
        waits: the publisher may have to wait for one of them.
        remote: somebody needs a body.
        blocks: somebody reads blocks.
        arrays: everybody reads ``buffers``.
    """

    outlets: tuple[Outlet, ...] = ()
    claims: tuple[tuple[Interest, ...], ...] = ()
    waits: bool = False
    remote: bool = False
    blocks: bool = False
    arrays: bool = True


NOWHERE = Route()


def route_of(topic: str, outlets: tuple[Outlet, ...], zero_copy: bool) -> Route:
    """The route of a topic over these, which all want it; without ``zero_copy`` nobody gets blocks."""
    remote = [outlet for outlet in outlets if not (outlet.is_local or outlet.queue.suspended)]
    return Route(
        outlets,
        tuple(outlet.queue.matching(topic, "") for outlet in outlets),
        any(outlet.waits(topic) for outlet in outlets),
        bool(remote),
        zero_copy and any(outlet.takes_blocks for outlet in remote),
        all(outlet.arrays for outlet in remote),
    )


class Turn(Struct, eq=False):
    """One publication.

    Attributes:
        published: what.
        since: monotonic seconds from which its wait counts.
        route: where it goes, when it was looked at last.
        passed: interests that are passed over, because their time is over.
        blocked: those whose window is full, each with its link.
        ack_wait: seconds to wait for links to be done with it; None for none.
        mail: serializer and content for mailboxes; None when none wants it.
        aired: serializer and content for broadcast; None as long as nobody needs it.
        kept: serializer and content to be kept; None when nothing of its topic is.
        framed: every mailbox wants it with its frames, so that it is sealed by whoever publishes it.
        item: as it goes to mailboxes; None when it is not sealed yet.
        record: the same with its frames, as long as it is sealed.
        full: a mailbox has no room.
    """

    published: Published
    since: float
    route: Route = NOWHERE
    passed: tuple[Interest, ...] = ()
    blocked: tuple[tuple[Outlet, Interest], ...] = ()
    ack_wait: float | None = None
    mail: tuple[str, Body] | None = None
    aired: tuple[str, Body] | None = None
    kept: tuple[str, bytes] | None = None
    framed: bool = False
    item: Item | None = None
    record: Record | None = None
    full: bool = False


class Mailboxes(Protocol):
    """The mailboxes of a publisher, false while there are none, as its links see them: `Posting`."""

    def __bool__(self) -> bool: ...

    @property
    def may_block(self) -> bool:
        """Whether a publication may have to wait for room in one."""
        ...

    def readers_of(self, topic: str) -> tuple[Any, ...]:
        """The mailboxes that get any message of a topic."""
        ...

    def prepare(self, turn: Turn, readers: tuple[Any, ...]) -> None:
        """Encode the content for these, unless that was done; without the lock."""
        ...

    def prepare_to_wait(self, turn: Turn) -> None:
        """As `prepare`, when one may have no room for so many bytes."""
        ...

    def is_full(self, turn: Turn) -> bool:
        """Whether one that blocks has no room; with the lock."""
        ...

    def put(self, turn: Turn, number: int) -> None:
        """Put it into each that wants it, under its number; with the lock."""
        ...

    def wait(self, turn: Turn) -> None:
        """Wait until there is room, or the time is over; no lock may be held."""
        ...
