"""Turns: one publication on its way to the links of its topic."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from ....protocol.bundle import Body
from .outlet import Outlet
from .published import Leg, Published


class Route(NamedTuple):
    """Where a topic goes.

    Attributes:
        legs: every link that wants it.
        outlets: the same links.
        blocking: legs that the publisher waits for.
        remote: somebody needs a body.
        blocks: somebody reads blocks.
        arrays: everybody reads ``buffers``.
    """

    legs: tuple[Leg, ...] = ()
    outlets: tuple[Outlet, ...] = ()
    blocking: tuple[Leg, ...] = ()
    remote: bool = False
    blocks: bool = False
    arrays: bool = True


NOWHERE = Route()


def route_of(legs: list[Leg], zero_copy: bool) -> Route:
    """The route over these legs; without ``zero_copy`` nobody gets blocks."""
    outlets = tuple(leg.outlet for leg in legs)
    remote = [outlet for outlet in outlets if not outlet.is_local]
    return Route(
        tuple(legs),
        outlets,
        tuple(leg for leg in legs if leg.blocks),
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
        places: legs on which a place in the window was taken.
        passed: legs that are passed over, because their time is over.
        blocked: legs whose window is full.
        mail: serializer and content for mailboxes; None when none wants it.
        full: a mailbox has no room.
    """

    published: Published
    since: float
    route: Route = NOWHERE
    places: tuple[Leg, ...] = ()
    passed: tuple[Leg, ...] = ()
    blocked: tuple[Leg, ...] = ()
    mail: tuple[str, Body] | None = None
    full: bool = False


class Mailboxes(Protocol):
    """The mailboxes of a publisher, false while there are none, as its links see them: `Posting`."""

    def __bool__(self) -> bool: ...

    @property
    def may_block(self) -> bool:
        """Whether a publication may have to wait for room in one."""
        ...

    def wants(self, topic: str) -> bool:
        """Whether messages of a topic go into any."""
        ...

    def prepare(self, turn: Turn) -> None:
        """Encode the content, unless that was done; without the lock."""
        ...

    def prepare_to_wait(self, turn: Turn) -> None:
        """As `prepare`, when one may have no room for so many bytes."""
        ...

    def is_full(self, turn: Turn) -> bool:
        """Whether one that blocks has no room; with the lock."""
        ...

    def is_prepared(self, turn: Turn) -> bool:
        """False when somebody came meanwhile who needs the content encoded; with the lock."""
        ...

    def put(self, turn: Turn, number: int) -> None:
        """Put it into each that wants it, under its number; with the lock."""
        ...

    def express(self, topic: str, route: Route, version: int) -> Any:
        """The shortest way of a topic that goes into mailboxes only."""
        ...

    def wait(self, turn: Turn) -> None:
        """Wait until there is room, or the time is over; no lock may be held."""
        ...
