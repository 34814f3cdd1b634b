"""Turns: one publication on its way to the links of its topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


def route_of(legs: list[Leg]) -> Route:
    """The route over these legs."""
    outlets = tuple(leg.outlet for leg in legs)
    remote = [outlet for outlet in outlets if not outlet.is_local]
    return Route(
        tuple(legs),
        outlets,
        tuple(leg for leg in legs if leg.blocks),
        bool(remote),
        any(outlet.takes_blocks for outlet in remote),
        all(outlet.arrays for outlet in remote),
    )


@dataclass(slots=True, eq=False)
class Turn:
    """One publication.

    Attributes:
        published: what.
        since: monotonic seconds from which its wait counts.
        route: where it goes, when it was looked at last.
        places: legs on which a place in the window was taken.
        passed: legs that are passed over, because their time is over.
        blocked: legs whose window is full.
    """

    published: Published
    since: float
    route: Route = NOWHERE
    places: tuple[Leg, ...] = ()
    passed: tuple[Leg, ...] = ()
    blocked: tuple[Leg, ...] = ()
