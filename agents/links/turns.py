"""Turns: one publication on its way to the links of its topic."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from ...protocol.bundle import Body
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
