"""Together: what comes for subscriptions at once: arrivals of one topic, or how many are missing."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from .arrivals import Arrival


class LeftOut(NamedTuple):
    """So many of a topic will not come, the last of them with this number."""

    topic: str
    number: int
    lost: int


class Together(Struct, eq=False):
    """Arrivals of one topic in succession, for all subscriptions of this process that want them.

    Attributes:
        topic: of all.
        arrivals: in order; whoever gets them does not change this.
        size: bytes of their encoded contents.
    """

    topic: str
    arrivals: list[Arrival]
    size: int = 0

    def add(self, arrival: Arrival) -> None:
        """One more."""
        self.arrivals.append(arrival)
        self.size += arrival.size

    def each(self) -> list[Together]:
        """Each by itself."""
        return [alone(arrival) for arrival in self.arrivals]


def alone(arrival: Arrival) -> Together:
    """One arrival."""
    return Together(arrival.topic, [arrival], arrival.size)
