"""Runs a tier of the tests: what may run side by side, then what must run alone, then failures once more.

    python tests/gate.py quick [pytest's arguments]     what proves the contract in minutes
    python tests/gate.py rest [pytest's arguments]      kills, clusters, networks, long properties
    python tests/gate.py wheel                          some of both, against the package that is installed

Each start of pytest may take ``TESTS_MINUTES`` (20); one that hangs tells the stacks of its processes, and fails the run.
A test that fails and passes when it runs once more is *flaky*: it does not fail the run, and is named in the last
lines and in ``build/tests/flaky.txt``. The last line tells how many passed, failed and were skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "tests"
FLAKY = FOLDER / "flaky.txt"
TIERS = {"quick": "not slow", "rest": "(slow or hypothesis)", "wheel": "not once"}
OPTIONS = {
    "rest": ["-o", "timeout=240"],
    "wheel": ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "--installed"],
}
LANES = ("plain", "plain-children", "plain-parents")
"""How the calls of the contract are tested once more: without the compiled lane, and with it at one end."""

WORKERS = min(3 * (os.cpu_count() or 1), 8)
"""Tests wait more than they compute, so there are more workers than cores."""

SIDE_BY_SIDE = ("-n", str(WORKERS), "--dist", "loadgroup", "--no-loadscope-reorder")

MOST = 25
"""Failures that are run once more; more than that are no accident."""

MINUTES = float(os.environ.get("TESTS_MINUTES", "20"))
"""That one start of pytest may take; the slowest takes 9 on two cores."""

TELLING = 10.0
"""Seconds for a process to tell its stacks."""

INTERRUPTED, NO_TESTS = 2, 5


class Started(NamedTuple):
    """A pytest that runs.

    Attributes:
        name: what it runs.
        path: file of its outcomes.
        log: what it prints, when that is not printed at once.
        process: of its own.
        until: monotonic seconds at which it hangs.
    """

    name: str
    path: Path
    log: Path | None
    process: subprocess.Popen[bytes]
    until: float


class Run:
    """One start of pytest after another, and what became of all tests.

    Args:
        tier: key of `TIERS`.
        arguments: passed on to pytest every time.
        variables: more of its environment.
    """

    def __init__(self, tier: str, arguments: list[str], **variables: str) -> None:
        self._tier, self._arguments = tier, arguments
        # Names of tests show sets, whose order must be the same in every process.
        seed = os.environ.get("PYTHONHASHSEED", "random")
        seed = str(os.getpid()) if seed == "random" else seed
        self._environment = {**os.environ, "PYTHONHASHSEED": seed, **variables}
        self.tests: dict[str, tuple[str, str]] = {}
        self.broken: list[str] = []
        self.seconds: Counter[str] = Counter()

    def begin(self, name: str, *options: str, quiet: bool = False) -> Started:
        """Start pytest; what it prints goes to a file beside its outcomes when it is to be quiet."""
        path = FOLDER / f"{self._tier}-{name}.json"
        path.unlink(missing_ok=True)
        log = path.with_suffix(".log") if quiet else None
        # -P: with the root on the path every layer would be importable under a second name.
        command = [sys.executable, "-P", "-m", "pytest", "--tier", self._tier, "--outcomes", str(path)]
        command += [*OPTIONS.get(self._tier, ()), *options, *self._arguments]
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(log.open("wb")) if log else None
            process = subprocess.Popen(command, env=self._environment, stdout=output, stderr=output)
        return Started(name, path, log, process, time.monotonic() + MINUTES * 60)

    def finish(self, started: Started) -> dict[str, tuple[str, str]]:
        """Wait for the end of a start; returns the outcomes and reasons by test."""
        path = started.path
        hung = not ended(started.process, started.until - time.monotonic())
        if hung:
            self.broken.append(f"{started.name} did not end within {MINUTES:g} minutes: its stacks are above")
        status = started.process.wait()
        if started.log is not None:
            print(started.log.read_text(encoding="utf-8", errors="replace"), flush=True)
        if status == INTERRUPTED and not path.is_file():
            raise KeyboardInterrupt
        found = (
            json.loads(path.read_text(encoding="utf-8"))
            if path.is_file()
            else {"tests": {}, "broken": [], "seconds": {}}
        )
        self.broken += found["broken"]
        self.seconds.update(found["seconds"])
        if status not in (0, 1, NO_TESTS) and not found["broken"] and not hung:
            self.broken.append(f"pytest ended with status {status} ({started.name})")
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
        again = Run(self._tier, [str(ROOT / test) for test in failed])
        again._environment = self._environment
        found = again.finish(again.begin("again", "-n", "0"))
        flaky = [test for test in failed if found.get(test, ("failed", ""))[0] == "passed"]
        self.tests.update(dict.fromkeys(flaky, ("passed", "")))
        return flaky


def ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end of a pytest; one that hangs tells its stacks and those of its workers, and is ended with
    all that they have started.
    """
    try:
        process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        family = psutil.Process(process.pid).children(recursive=True)
        workers = [each for each in family if is_worker(each)]
        for each in workers:  # so that they write one after the other, and none ends with the first one
            with contextlib.suppress(psutil.Error):
                each.suspend()
        process.send_signal(signal.SIGABRT)  # pytest has it handled by faulthandler
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TELLING)
        for each in workers:
            with contextlib.suppress(psutil.Error):
                each.send_signal(signal.SIGABRT)
                each.resume()
                each.wait(TELLING)
        for each in (*family, process):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
        return False
    return True


def is_worker(process: psutil.Process) -> bool:
    """Whether pytest-xdist has started it to run tests."""
    with contextlib.suppress(psutil.Error):
        return "exec(eval(sys.stdin.readline()))" in " ".join(process.cmdline())
    return False


def with_mark(mark: str, arguments: list[str]) -> list[str]:
    """Files that use a mark: to collect all others costs more than what few of them hold; none when told where."""
    if arguments:
        return []
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path) for path in files if f"pytest.mark.{mark}" in path.read_text(encoding="utf-8")]


def other_lanes(run: Run) -> list[str]:
    """Add to a run the calls of the contract with other lanes; returns what was flaky."""
    flaky: list[str] = []
    for lanes in LANES:
        other = Run("quick", [str(ROOT / "tests" / "contract" / "calls")], TESTS_LANES=lanes)
        kind = "not slow and not java and not serial"
        other.tests = other.finish(other.begin(lanes, *SIDE_BY_SIDE, "-m", kind))
        flaky += [f"{test} ({lanes})" for test in other.once_more()]
        run.tests.update({f"{test} ({lanes})": outcome for test, outcome in other.tests.items()})
        run.broken += other.broken
        run.seconds.update(other.seconds)
    return flaky


def tell(run: Run, flaky: list[str], seconds: float) -> int:
    """Print what became of the tests; returns the exit status."""
    outcomes = Counter(outcome for outcome, _ in run.tests.values())
    skipped = Counter(reason for outcome, reason in run.tests.values() if outcome == "skipped")
    failed = run.failed()
    folders = Counter(str(Path(test.partition("::")[0]).parent) for test in run.tests)
    for folder, spent in run.seconds.most_common():
        print(f"{folder:<30}{folders[folder]:>6} tests {spent:>7.0f} s of all processes together")
    for reason, number in skipped.most_common():
        print(f"skipped {number}: {reason.removeprefix('Skipped: ')}")
    for test in flaky:
        print(f"flaky (failed, then passed alone): {test}")
    for test in (*failed, *run.broken):
        print(f"failed: {test}")
    FLAKY.write_text("".join(f"{test}\n" for test in flaky), encoding="utf-8")
    print(
        f"{len(flaky)} flaky, {outcomes['xfailed']} expected to fail, "
        f"{int(seconds // 60)} min {int(seconds % 60)} s"
    )
    wrong = len(failed) + len(run.broken)
    print(f"{outcomes['passed']} passed, {wrong} failed, {outcomes['skipped']} skipped", flush=True)
    return 1 if wrong or not run.tests else 0


def main() -> int:
    """Run a tier; 0 when nothing failed twice."""
    tier, *arguments = sys.argv[1:]
    if tier == "wheel":
        arguments = arguments or [str(ROOT / "tests")]
    FOLDER.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    run = Run(tier, arguments)
    kind = TIERS[tier]
    # What a JVM and its library leave in a process is nothing to other tests.
    java = run.begin(
        "java", "-n", "0", "-m", f"{kind} and java and not serial", *with_mark("java", arguments), quiet=True
    )
    try:
        run.tests.update(
            run.finish(run.begin("together", *SIDE_BY_SIDE, "-m", f"{kind} and not java and not serial"))
        )
        run.tests.update(run.finish(java))
    finally:
        java.process.terminate()
    if not run.broken:
        alone = run.begin("alone", "-n", "0", "-m", f"{kind} and serial", *with_mark("serial", arguments))
        run.tests.update(run.finish(alone))
    flaky = run.once_more()
    if tier == "rest" and not arguments:
        flaky += other_lanes(run)
    return tell(run, flaky, time.monotonic() - started)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
