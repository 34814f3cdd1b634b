from __future__ import annotations

import time

import pytest

from pzc.agents.links import bursts as module
from pzc.agents.links.bursts import BURST, Bursts

from tests.agents.notifying import TIMEOUT


def publish(bursts: Bursts) -> bool:
    try:
        return bursts.begin(time.monotonic())
    finally:
        bursts.end()


def test_publications_in_quick_succession_become_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUICK", TIMEOUT)  # on a slow machine as well
    bursts = Bursts()
    assert not bursts.begin(time.monotonic() + 2 * TIMEOUT)
    bursts.end()
    assert [publish(bursts) for _ in range(BURST)] == [False] * (BURST - 1) + [True]
    assert bursts.on


def test_the_first_one_after_a_pause_belongs_to_no_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUICK", TIMEOUT)
    bursts = Bursts()
    for _ in range(2 * BURST):
        publish(bursts)
    assert not bursts.begin(time.monotonic() + 2 * TIMEOUT)
    assert not bursts.on
