"""What agents tell of their topics, links and subscriptions."""

from __future__ import annotations

import time

import pytest

from pzc import Notification
from pzc.agents.notifications import metering
from pzc.agents.notifications.links.arrivals import Arrival, arrival_of
from pzc.agents.notifications.metering import SAMPLED, Arrivals, Sampled


def _notification(sent_at: float, size: int = 5, *, initial: bool = False) -> Arrival:
    return arrival_of(Notification("p", "", "t", "", 1, 1, sent_at, 0.0, None, initial=initial, size=size))


def test_one_age_of_so_many_is_measured_and_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "time", lambda: 1000.0)
    sampled = Sampled()
    for number in range(3 * SAMPLED):
        sampled.add_ms(1_000_000 - number * 1000)
    assert sampled.ages is not None
    spread = sampled.ages.spread()
    assert (spread.measured, spread.min, spread.max) == (3, 0.0, 2.0 * SAMPLED)


def test_an_age_is_told_by_this_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "time", lambda: 1000.0)
    arrivals = Arrivals()
    arrivals.offset_ms = 300_000  # theirs is five minutes ahead
    arrivals.add([_notification(1298.0)])
    assert arrivals.statistics(time.monotonic())["age"]["max"] == pytest.approx(2.0)


def test_what_was_kept_has_no_age() -> None:
    arrivals = Arrivals()
    arrivals.add([_notification(0.0, initial=True)])
    told = arrivals.statistics(time.monotonic())
    assert (told["bytes"], told["age"]["measured"]) == (5, 0)


def test_notifications_that_arrive_together_are_added_together() -> None:
    arrivals = Arrivals()
    arrivals.add([_notification(0.0, 5), _notification(0.0, 7)])
    assert (arrivals.meter.messages, arrivals.meter.bytes) == (2, 12)
