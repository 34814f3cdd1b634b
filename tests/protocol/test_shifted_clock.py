from __future__ import annotations

import sys
import time

import pytest

from pzc.testing import ShiftedClock


def test_the_wall_clock_is_shifted_and_the_monotonic_one_is_not() -> None:
    before, steady = time.time(), time.monotonic()
    with ShiftedClock(-3600.0), ShiftedClock(60.0):
        assert -3540.0 <= time.time() - before < -3480.0
        assert -3540e9 <= time.time_ns() - before * 1e9 < -3480e9
        assert time.monotonic() - steady < 60.0
    assert 0.0 <= time.time() - before < 60.0


def test_a_module_that_cannot_be_imported_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "no_such_module", None)
    with ShiftedClock(3600.0):
        assert time.time() > 3600.0
