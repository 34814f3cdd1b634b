"""The demo with a camera that is wrong somewhere: the report says what, and the exit status tells it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.lab import analysis, demo

SECONDS = 3.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(240),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]


class Lent:
    """The one session of all tests, which the demo may use and not end."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """Leave it to those who come after."""


@pytest.fixture
def run_demo(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """Run the demo with another camera; its exit status."""
    monkeypatch.setattr(analysis, "spark_session", lambda _: Lent(spark))
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"])  # the demo changes it
    return lambda camera: demo.run(tmp_path / "report", SECONDS, {"camera": (camera, "camera")})


def test_one_wrong_pixel_fails_the_demo(run_demo: Callable[[str], int], tmp_path: Path) -> None:
    assert run_demo("tests.examples.wrong_pixel") == 1
    assert "frame 5 has 1 wrong pixels" in (tmp_path / "report" / "index.html").read_text()


def test_one_bit_changed_in_transit_fails_the_demo(
    run_demo: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo("tests.examples.wrong_bit") == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("gaps")]
    assert len(lines) == 1
    assert lines[0].endswith("FAILED")
