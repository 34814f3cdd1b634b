"""What keeps one process of a lab running."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from pzc.lab.process import LabProcess
from pzc.lab.units import Unit
from pzc.testing import ShiftedClock

pytestmark = pytest.mark.needs("linux")

TIMEOUT = 30.0
HELP = Unit("help", "server", ("--help",), "never")

Keep = Callable[..., LabProcess]


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Keep]:
    """Keeps a unit running until the end of the test; returns once that runs, or has ended."""
    with ExitStack() as kept:

        def begin(log: Path, environment: Mapping[str, str] = os.environ) -> LabProcess:
            process = LabProcess(HELP, tmp_path, environment, log, grace=2.0)
            kept.callback(process.join)
            kept.callback(process.stop)
            assert process.wait_settled(TIMEOUT)
            return process

        yield begin


def test_what_the_system_says_before_the_process_begins_is_written_like_its_own_words(
    keep: Keep, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    process = keep(log, {**os.environ, "LD_PRELOAD": "/absent.so"})
    assert process.report()["state"] == "ended"
    assert "/absent.so" in log.read_text(encoding="utf-8").splitlines()[0]


def test_a_log_that_the_disk_refuses_is_told_of_once_and_plainly(
    keep: Keep, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    assert keep(Path("/dev/full")).report()["state"] == "ended"
    assert [record.getMessage() for record in caplog.records] == [
        "log /dev/full cannot be written, its process goes on: [Errno 28] No space left on device"
    ]
    assert capfd.readouterr().err == ""


def test_lines_that_the_disk_refused_are_counted_where_they_are_missing(keep: Keep, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.symlink_to("/dev/full")
    process = keep(log)
    log.unlink()
    process.restart()
    assert process.wait_settled(TIMEOUT)
    first, *others = log.read_text(encoding="utf-8").splitlines()
    assert first.endswith(f" {len(others)} lines are missing here: [Errno 28] No space left on device")


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
