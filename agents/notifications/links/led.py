"""Led: a link whose notifications a waiting thread receives by itself; see `leading`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..subscription import Subscription
from .hands import Hands
from .inward import Inward, OverUnix
from .roster import Roster


class Led:
    """A link of which a subscription's own thread may receive: the leading side of an `Inlet`."""

    _places: Roster
    _way: Inward | None
    _hands: Hands

    def _lend_to(self, subscription: Subscription) -> None:
        """Let a subscription that gets everything lead; what waits in the socket would be old to others."""
        if not subscription.policy.lossy:
            subscription.lead = self.lead

    def lead(self, wants: Callable[[], bool], deadline: float) -> None:
        """Receive in this thread while something is wanted, if it may; as a rule it comes back soon.

        Args:
            wants: whether nothing has come yet for whoever waits.
            deadline: in monotonic seconds.
        """
        if len(self._places) == 1 and isinstance(self._way, OverUnix):
            self._hands.lead(partial(self._comes, wants, deadline))

    def _comes(self, wants: Callable[[], bool], deadline: float) -> bool:
        """Wait for something to receive; False when nothing came, or is wanted, or may be received here."""
        way = self._way
        if not isinstance(way, OverUnix) or len(self._places) != 1:
            self._hands.give_back()
            return False
        return wants() and way.comes(deadline)

    def _offer(self) -> None:
        """One of those who wait may lead."""
        for place in self._places:
            place.subscription.offer_lead()
