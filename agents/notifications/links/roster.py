"""Roster: the places of one link, found by the numbers of their interests, however many they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..subscription import Subscription
from .arrivals import Flow
from .places import Place

_MOST_KNOWN = 10_000


class Wanting(NamedTuple):
    """Who gets what comes for some interests.

    Attributes:
        places: theirs.
        flow: all that comes for just these; it knows nobody, because a view that is kept keeps it.
    """

    places: tuple[Place, ...]
    flow: Flow


def _wanting(places: tuple[Place, ...]) -> Wanting:
    windows = [each.window for each in places if not each.subscription.policy.lossy]
    return Wanting(places, Flow(max(1, min(windows) // 2) if windows else None))


class Roster:
    """Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[Subscription, Place] = {}
        self._by_interest: dict[int, Place] = {}
        self._known: dict[tuple[int, ...], Wanting] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Place]:
        with self._lock:
            return iter(list(self._of.values()))

    def add(self, place: Place) -> None:
        """One more."""
        with self._lock:
            self._of[place.subscription] = self._by_interest[place.interest] = place

    def remove(self, subscription: Subscription) -> Place | None:
        """One less; None when it had none."""
        with self._lock:
            place = self._of.pop(subscription, None)
            if place is not None:
                del self._by_interest[place.interest]
                self._known = {}
            return place

    def at(self, interest: int) -> Place | None:
        """The place of an interest, while it is there."""
        return self._by_interest.get(interest)

    def confirm(self, place: Place, window: int) -> None:
        """The publisher has said how many messages may be under way for a place."""
        with self._lock:
            place.window = window
            self._known = {}

    def wanting(self, interests: Sequence[int]) -> Wanting:
        """Who gets what comes for these."""
        key = tuple(interests)
        return self._known.get(key) or self._find(key)

    def _find(self, interests: tuple[int, ...]) -> Wanting:
        with self._lock:
            found = [self._by_interest[each] for each in interests if each in self._by_interest]
            if len(self._known) >= _MOST_KNOWN:
                self._known = {}
            wanting = self._known[interests] = _wanting(tuple(found))
            return wanting

    def restart(self, publisher: str) -> None:
        """It has taken the place of the one before, numbering anew."""
        for place in self:
            place.restart(publisher)
