"""What ``pzc hz`` and ``pzc bw`` count and print."""

from __future__ import annotations

from typing import Any

import pytest

from pzc import Notification
from pzc.console.rates import Flow, Pace, bw_line, hz_line, in_bytes
from pzc.testing import FakeClock


def _notification(received_at: float, size: int = 0) -> Notification:
    return Notification("p", "", "t", "", 1, 1, 0.0, received_at, None, size=size)


def test_a_pace_is_that_of_the_window() -> None:
    pace = Pace(10.0, FakeClock(100.0))
    for received_at in (1.0, 98.0, 99.0, 99.5):
        pace.add(_notification(received_at))
    told = pace.tell()
    assert (told["messages"], told["min_s"], told["max_s"], told["std_s"]) == (3, 0.5, 1.0, 0.25)
    assert told["rate_hz"] == pytest.approx(2 / 1.5)


def test_a_flow_is_that_of_the_window() -> None:
    clock = FakeClock(90.0)
    flow = Flow(10.0, clock)
    clock.now = 120.0
    for received_at, size in ((100.0, 1), (115.0, 100), (119.0, 300)):
        flow.add(_notification(received_at, size))
    assert flow.tell() == {
        "messages": 2, "bytes_per_s": 40.0, "mean_bytes": 200.0, "min_bytes": 100, "max_bytes": 300,
    }  # fmt: skip


def test_a_flow_that_began_lately_is_that_of_its_time() -> None:
    clock = FakeClock(90.0)
    flow = Flow(10.0, clock)
    clock.now = 92.0
    flow.add(_notification(91.0, 100))
    assert flow.tell()["bytes_per_s"] == 50.0


def _hz(**told: Any) -> dict[str, Any]:
    return {
        "messages": 3, "rate_hz": 2.0, "min_s": 0.4, "max_s": 0.6, "std_s": 0.1, "gaps": 0, "lost": 0, **told
    }  # fmt: skip


def test_losses_stand_on_the_line() -> None:
    assert hz_line(_hz()) == "2.000 Hz  min 400.000 ms  max 600.000 ms  std 100.000 ms  3 messages"
    assert hz_line(_hz(lost=5, gaps=2)).endswith("3 messages  5 lost in 2 gaps")
    assert hz_line(_hz(messages=0)) == "0 messages, no rate yet"
    assert bw_line({"messages": 0, "lost": 1, "gaps": 1}) == "0 messages  1 lost in 1 gaps"


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (2.5e6, "2.50 MB"), (3e12, "3000.00 GB")],
)
def test_bytes_for_people(size: float, shown: str) -> None:
    assert in_bytes(size) == shown


def test_a_pace_leaves_out_what_came_before_the_clock_was_set_back() -> None:
    clock = FakeClock(5000.0)
    pace = Pace(10.0, clock)
    pace.add(_notification(4999.0))
    clock.now = 1003.0
    for received_at in (1001.0, 1002.0):
        pace.add(_notification(received_at))
    told = pace.tell()
    assert (told["messages"], told["rate_hz"]) == (2, 1.0)


def test_a_flow_leaves_out_what_came_before_the_clock_was_set_back() -> None:
    clock = FakeClock(5000.0)
    flow = Flow(10.0, clock)
    flow.add(_notification(5000.0, 7))
    clock.now = 1005.0
    flow.add(_notification(1001.0, 100))
    told = flow.tell()
    assert (told["messages"], told["bytes_per_s"]) == (1, 25.0)
