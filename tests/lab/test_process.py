"""What is told of a process of a lab."""

from __future__ import annotations

from pathlib import Path

from pzc.lab.process import LabProcess
from pzc.lab.units import Unit
from pzc.testing import ShiftedClock

from tests.contract.rigs.peers import TIMEOUT


def test_how_long_a_process_is_in_its_state_is_true_after_the_clock_was_set(tmp_path: Path) -> None:
    process = LabProcess(
        Unit("psu", "server", ("no such command",), "never"), tmp_path, {}, tmp_path / "log", 1.0
    )
    try:
        assert process.wait_settled(TIMEOUT)
        with ShiftedClock(86_400.0):
            told = process.report()
    finally:
        process.stop()
        process.join()
    assert told["state"] == "failed"
    assert told["since"] < 3600
