"""The demo with a camera that is wrong somewhere: the report says what, and the exit status tells it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from examples.lab import demo

SECONDS = 3.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(240),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]


@pytest.fixture
def run_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """Run the demo with another camera; its exit status."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parent))  # of the other cameras
    return lambda module: demo.run(
        tmp_path / "report",
        SECONDS,
        {"examples.lab.instrument:CameraInstrument": f"{module}:CameraInstrument"},
    )


def failed(told: str) -> list[str]:
    """The checks that did not hold, as the demo prints them."""
    return [line for line in told.splitlines() if line.endswith("FAILED")]


def test_one_wrong_pixel_fails_the_demo(
    run_demo: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo("wrong_pixel") == 1
    (line,) = [line for line in failed(capsys.readouterr().out) if line.startswith("camera")]
    assert line.split() == ["camera:", "frames", "with", "wrong", "pixels", "none", "5", "FAILED"]


def test_one_bit_changed_in_transit_fails_the_demo(
    run_demo: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo("wrong_bit") == 1
    assert [line for line in failed(capsys.readouterr().out) if line.startswith("gaps")]
