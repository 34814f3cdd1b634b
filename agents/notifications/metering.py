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


class Sampled:
    """Ages of every `SAMPLED` th message, or arrival of several; the first one included.

    Attributes:
        ages: None before the first.
    """

    __slots__ = ("_turn", "ages")

    def __init__(self) -> None:
        self.ages: Histogram | None = None
        self._turn = 0

    def add_ms(self, sent_ms: float) -> None:
        """What was published at this Unix time in ms, by this machine's clock, came or is done with."""
        turn = self._turn = (self._turn + 1) % SAMPLED
        if turn == 1:
            self._measure(sent_ms)

    def _measure(self, sent_ms: float) -> None:
        ages = self.ages = self.ages or Histogram()
        ages.add(time() - sent_ms / 1000)

    def told(self, meter: Meter, now: float) -> dict[str, Any]:
        """As `told`, with these ages."""
        return told(meter, self.ages or Histogram(), now)


class Arrivals(Sampled):
    """What reaches one subscription; the subscription's lock protects it.

    Attributes:
        offset_ms: the publisher's clock minus this one's.
        throttled: notifications that a throttle left out.
        ignored: notifications of this process, left out for a subscription that ignores those.
    """

    __slots__ = ("_meter", "ignored", "offset_ms", "throttled")

    def __init__(self) -> None:
        super().__init__()
        self._meter: Meter | None = None
        self.offset_ms = self.throttled = self.ignored = 0

    @property
    def meter(self) -> Meter:
        """Of all; made when the first one comes."""
        meter = self._meter
        if meter is None:
            meter = self._meter = Meter()
        return meter

    def add(self, entries: Sequence[Arrival], size: int | None = None) -> None:
        """Some that arrived together, at least one; the bytes of all, when that is known."""
        if size is None:
            size = sum([entry.size for entry in entries])
        (self._meter or self.meter).add(monotonic(), len(entries), size)
        if sent_ms := entries[-1].sent_ms:  # else it was published before
            turn = self._turn = (self._turn + 1) % SAMPLED
            if turn == 1:
                self._measure(sent_ms - self.offset_ms)

    def statistics(self, now: float) -> dict[str, Any]:
        """See `told`."""
        return self.told(self._meter or Meter(), now)


def told(meter: Meter, ages: Histogram | None, now: float) -> dict[str, Any]:
    """What a meter says, for people and programs: bytes, rates in a second, ages in seconds."""
    rate = meter.rate(now)
    found: dict[str, Any] = {"bytes": meter.bytes, "rate_hz": rate.messages, "bytes_per_s": rate.bytes}
    if ages is not None:
        found["age"] = ages.spread()._asdict()
    return found
