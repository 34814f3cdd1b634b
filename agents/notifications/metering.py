"""Metering: what statistics tell of topics, links and subscriptions.

Messages and bytes are counted all, those that arrive together at once. Ages are measured of the last message
of one arrival in `SAMPLED`, the first one included; the time of sending is known to the millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, time
from typing import Any

from ...delivery.meters import Histogram, Meter
from .links.arrivals import Arrival

SAMPLED = 8
"""Of so many arrivals one is measured for its age."""


class Meters(dict[str, Meter]):
    """A meter for each topic."""

    def __missing__(self, topic: str) -> Meter:
        meter = self[topic] = Meter()
        return meter


class Sampled:
    """Ages of every `SAMPLED` th acknowledgement."""

    __slots__ = ("_turn", "ages")

    def __init__(self) -> None:
        self.ages = Histogram()
        self._turn = 0

    def add_ms(self, sent_ms: float) -> None:
        """What was published at this Unix time in milliseconds, by this machine's clock, is done with."""
        turn = self._turn = (self._turn + 1) % SAMPLED
        if turn == 1:
            self.ages.add(time() - sent_ms / 1000)


class Arrivals:
    """What reaches one subscription; the subscription's lock protects it.

    Attributes:
        offset_ms: the publisher's clock minus this one's.
        meter: of all; made when the first one comes.
        throttled: notifications that a throttle left out.
        ignored: notifications of this process, left out for a subscription that ignores those.
    """

    __slots__ = ("_ages", "_meter", "_turn", "ignored", "offset_ms", "throttled")

    def __init__(self) -> None:
        self._meter: Meter | None = None
        self.offset_ms = 0
        self.throttled = 0
        self.ignored = 0
        self._ages: Histogram | None = None
        self._turn = 0

    @property
    def meter(self) -> Meter:
        """See the attributes."""
        meter = self._meter
        if meter is None:
            meter = self._meter = Meter()
        return meter

    def add(self, entries: Sequence[Arrival], size: int | None = None) -> None:
        """Some that arrived together, at least one; the bytes of all, when that is known."""
        if size is None:
            size = sum([entry.size for entry in entries])
        (self._meter or self.meter).add(monotonic(), len(entries), size)
        turn = self._turn = (self._turn + 1) % SAMPLED
        if turn == 1:
            self._measure(entries[-1])

    def _measure(self, last: Arrival) -> None:
        ages = self._ages
        if ages is None:
            ages = self._ages = Histogram()
        if last.sent_ms:  # else it was published before
            ages.add(time() - (last.sent_ms - self.offset_ms) / 1000)

    def statistics(self, now: float) -> dict[str, Any]:
        """See `told`."""
        return told(self._meter or Meter(), self._ages or Histogram(), now)


def told(meter: Meter, ages: Histogram | None, now: float) -> dict[str, Any]:
    """What a meter says, for people and programs: bytes, rates in a second, ages in seconds."""
    rate = meter.rate(now)
    found: dict[str, Any] = {"bytes": meter.bytes, "rate_hz": rate.messages, "bytes_per_s": rate.bytes}
    if ages is not None:
        spread = ages.spread()
        found["age"] = {
            "measured": spread.number, "min": spread.min, "mean": spread.mean, "max": spread.max,
            "p99": spread.p99,
        }  # fmt: skip
    return found
