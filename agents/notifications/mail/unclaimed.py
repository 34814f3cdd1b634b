"""Unclaimed: messages of a mailbox with a name that came before the subscription that wants them."""

from __future__ import annotations

from collections import deque

from ..links.arrivals import Arrival
from .place import Place


class Unclaimed:
    """Messages that no subscription wants, or not yet. Not thread-safe.

    Args:
        patience: seconds that they wait.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._arrivals: deque[tuple[float, Arrival]] = deque()

    def put(self, arrivals: list[Arrival], now: float) -> None:
        """They came."""
        self._arrivals.extend((now + self._patience, arrival) for arrival in arrivals)

    def claim(self, place: Place) -> list[Arrival]:
        """Those that a subscription wants; it has to be done with them."""
        if not self._arrivals:
            return []
        waiting, claimed = deque[tuple[float, Arrival]](), list[Arrival]()
        for until, arrival in self._arrivals:
            wanted = place.wants(arrival.topic, arrival.key)
            claimed.append(arrival) if wanted else waiting.append((until, arrival))
        self._arrivals = waiting
        return claimed

    def expired(self, now: float) -> list[Arrival]:
        """Those that have waited long enough."""
        found = list[Arrival]()
        while self._arrivals and self._arrivals[0][0] <= now:
            found.append(self._arrivals.popleft()[1])
        return found

    def clear(self) -> None:
        """The publisher was restarted: nobody waits for their acknowledgement."""
        self._arrivals.clear()
