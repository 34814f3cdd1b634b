"""What became of every test, and how long each folder took, written to a file for whoever runs pytest several times; see tests/gate.py."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

WORST = ("failed", "skipped", "xfailed", "passed")
"""Of setup, call and teardown, the worst outcome is the test's."""


class Outcomes:
    """Collects the outcome of each test, with the reason of what was skipped, and writes them as JSON.

    Args:
        path: file that is written when the run ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, tuple[str, str]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._broken: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome, reason = report.outcome, ""
        if report.skipped:
            outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        name = name_of(report.nodeid)
        self._seconds[str(Path(name.partition("::")[0]).parent)] += report.duration
        before = self._found.get(name, ("passed", ""))
        self._found[name] = min(before, (outcome, reason), key=lambda each: WORST.index(each[0]))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(
            json.dumps({"tests": self._found, "broken": self._broken, "seconds": self._seconds}),
            encoding="utf-8",
        )


def name_of(nodeid: str) -> str:
    """A node id without the group that distribution adds behind it."""
    return nodeid.rpartition("@")[0] if nodeid.rfind("@") > nodeid.rfind("]") else nodeid
