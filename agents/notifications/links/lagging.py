"""Lagging: contents without a window are copied out of their blocks for subscriptions that do not read them.

The publisher lends all lossy subscriptions of a link together a few blocks. Whoever reads at once looks at a
content where it lies; whoever does not would keep the block, and all others from the next one::

    state     event                                           next
    level     several lie in blocks                           watched
    watched   `SOON` later one of them still does             lagging, for `LASTS`: as below
    watched   `SOON` later all are others, but several        watched
    watched   `SOON` later they are not several               level
    lagging   several lie in blocks                           lagging: all but one are copied out, the oldest
                                                              first, and done with
    lagging   `LASTS` is over                                 level

A copy waits in the inboxes, which have a bound in bytes. Not copied is what somebody looks at and nobody else
has unread, and what the publisher waits for. Nor is anything where nobody is kept from it: a sole ``latest``
gets newer ones instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic

from .arrivals import Arrival, HeldArrivals, Make
from .roster import Roster

Later = Callable[[float, Callable[[], object]], object]

SOON = 0.005
"""Seconds after which one that still lies in its block lags."""

AGAIN = 0.05
"""Seconds after which what could not be copied is tried again."""

LASTS = 1.0
"""Seconds for which whatever comes is copied out at once."""


class Lagging:
    """In the thread that receives, but for `look_soon`.

    Args:
        arrivals: of the link.
        roster: its subscriptions.
        later: has that thread call something in so many seconds.
        copy: makes a notification of a copy, of what stands in `HeldArrivals.blocks` behind the interests.
    """

    def __init__(
        self,
        arrivals: HeldArrivals,
        roster: Roster,
        later: Later,
        copy: Callable[..., Make],
    ) -> None:
        self._arrivals = arrivals
        self._roster = roster
        self._later = later
        self._copy = copy
        self._until = 0.0
        self._watched: set[int] | None = None

    def look_soon(self) -> None:
        """Subscriptions came or went; any thread."""
        if len(self._arrivals.blocks) > 1:
            self._watch(SOON)

    def crowded(self) -> None:
        """Several lie in blocks."""
        self._arrivals.crowded = False
        if monotonic() >= self._until:
            self._watch(SOON)
        elif self._copy_out():
            self._watch(AGAIN)

    def _watch(self, delay: float) -> None:
        if self._watched is None:
            self._watched = set(self._arrivals.blocks)
            self._later(delay, self._look)

    def _look(self) -> bool:
        watched, self._watched = self._watched or (), None
        blocks = self._arrivals.blocks
        if len(blocks) > 1 and self._harms():
            if not any(number in watched for number in list(blocks)):
                self._watch(SOON)
            else:
                self._until = monotonic() + LASTS
                if self._copy_out():
                    self._watch(AGAIN)
        return True

    def _harms(self) -> bool:
        """Whether anybody is kept from what may come."""
        policies = [share.subscription.policy for share in self._roster]
        lossy = [policy for policy in policies if policy.lossy]
        return len(lossy) > 1 or any(policy.name == "drop" for policy in lossy)

    def _copy_out(self) -> bool:
        """All but one; whether there are more for now."""
        arrivals = self._arrivals
        held = list(arrivals.blocks.values())
        left = len(held)
        for arrival, (interests, *known) in held:
            number = arrival.number
            if left < 2 or number == arrivals.hurry or number in arrivals.early:
                continue
            if number == arrivals.lent and not self._is_unread(arrival, interests):
                continue
            if arrivals.give_back(arrival, partial(self._copy, *known)):
                left -= 1
        return left > 1

    def _is_unread(self, arrival: Arrival, interests: list[int]) -> bool:
        shares = self._roster.wanting(interests).shares
        return any(share.subscription.has_unread(arrival) for share in shares)
