"""Runs a tier of the tests: what may run side by side, then what must run alone, then failures once more.

    python tests/gate.py quick [pytest's arguments]     what proves the contract in minutes
    python tests/gate.py rest [pytest's arguments]      kills, clusters, networks, long properties

A test that fails and passes when it runs once more is *flaky*: it does not fail the run, and is named in the last
lines and in ``build/tests/flaky.txt``. The last line tells how many passed, failed and were skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "tests"
FLAKY = FOLDER / "flaky.txt"
TIERS = {"quick": "not slow", "rest": "(slow or hypothesis)"}
WORKERS = min(3 * (os.cpu_count() or 1), 8)
"""Tests wait more than they compute, so there are more workers than cores."""

MOST = 25
"""Failures that are run once more; more than that are no accident."""

INTERRUPTED, NO_TESTS = 2, 5


class Run:
    """One start of pytest after another, and what became of all tests.

    Args:
        tier: key of `TIERS`.
        arguments: passed on to pytest every time.
    """

    def __init__(self, tier: str, arguments: list[str]) -> None:
        self._tier, self._arguments = tier, arguments
        # Names of tests show sets, whose order must be the same in every process.
        seed = os.environ.get("PYTHONHASHSEED", "random")
        self._environment = {**os.environ, "PYTHONHASHSEED": str(os.getpid()) if seed == "random" else seed}
        self.tests: dict[str, tuple[str, str]] = {}
        self.broken: list[str] = []

    def start(self, name: str, *options: str) -> dict[str, tuple[str, str]]:
        """Run pytest once; returns the outcomes and reasons by test."""
        path = FOLDER / f"{self._tier}-{name}.json"
        path.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "--tier", self._tier, "--outcomes", str(path)]
        command += [*options, *self._arguments]
        status = subprocess.run(command, cwd=ROOT, env=self._environment, check=False).returncode
        if status == INTERRUPTED and not path.is_file():
            raise KeyboardInterrupt
        found = (
            json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"tests": {}, "broken": []}
        )
        self.broken += found["broken"]
        if status not in (0, 1, NO_TESTS) and not found["broken"]:
            self.broken.append(f"pytest ended with status {status} ({name})")
        return {test: (outcome, reason) for test, (outcome, reason) in found["tests"].items()}

    def failed(self) -> list[str]:
        """Tests that failed."""
        return [test for test, (outcome, _) in self.tests.items() if outcome == "failed"]

    def once_more(self) -> list[str]:
        """Run what failed alone; returns what passed then."""
        failed = self.failed()
        if not failed or len(failed) > MOST or self.broken:
            return []
        print(f"\n==> {len(failed)} failed; once more, alone", flush=True)
        arguments, self._arguments = self._arguments, []
        again = self.start("again", "-n", "0", *failed)
        self._arguments = arguments
        flaky = [test for test in failed if again.get(test, ("failed", ""))[0] == "passed"]
        self.tests.update(dict.fromkeys(flaky, ("passed", "")))
        return flaky


def tell(run: Run, flaky: list[str], seconds: float) -> int:
    """Print what became of the tests; returns the exit status."""
    outcomes = Counter(outcome for outcome, _ in run.tests.values())
    skipped = Counter(reason for outcome, reason in run.tests.values() if outcome == "skipped")
    failed = run.failed()
    for reason, number in skipped.most_common():
        print(f"skipped {number}: {reason.removeprefix('Skipped: ')}")
    for test in flaky:
        print(f"flaky (failed, then passed alone): {test}")
    for test in (*failed, *run.broken):
        print(f"failed: {test}")
    FLAKY.write_text("".join(f"{test}\n" for test in flaky), encoding="utf-8")
    print(
        f"{len(flaky)} flaky, {outcomes['xfailed']} known faults are still open (make findings), "
        f"{int(seconds // 60)} min {int(seconds % 60)} s"
    )
    wrong = len(failed) + len(run.broken)
    print(f"{outcomes['passed']} passed, {wrong} failed, {outcomes['skipped']} skipped", flush=True)
    return 1 if wrong or not run.tests else 0


def main() -> int:
    """Run a tier; 0 when nothing failed twice."""
    tier, *arguments = sys.argv[1:]
    FOLDER.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    run = Run(tier, arguments)
    kind = TIERS[tier]
    side_by_side = ("-n", str(WORKERS), "--dist", "loadgroup", "--no-loadscope-reorder")
    run.tests.update(run.start("together", *side_by_side, "-m", f"{kind} and not serial"))
    if not run.broken:
        run.tests.update(run.start("alone", "-n", "0", "-m", f"{kind} and serial"))
    flaky = run.once_more()
    return tell(run, flaky, time.monotonic() - begin)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
