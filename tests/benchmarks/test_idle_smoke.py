"""The benchmark of idle agents runs; what they cost plays no part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.children import core_to_pin
from benchmarks.idle import IDLE
from benchmarks.notification_cases import Effort
from benchmarks.rounds import run_case

pytestmark = [pytest.mark.once, pytest.mark.slow]


def test_idle_agents_are_measured_with_and_without_subscriptions_and_discovery() -> None:
    outcome = run_case(replace(IDLE, processes=2), Effort({}, {}, 0, 0, 0, 0, idle=0.2), 1, core_to_pin())
    assert not outcome.failures
    assert set(outcome.values) == {"ours", "alone", "off"}
    assert all(value > 0 for values in outcome.values.values() for value in values)
