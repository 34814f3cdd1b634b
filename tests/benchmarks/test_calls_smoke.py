"""The call benchmark runs, tells what it must, and judges rightly; how fast anything is plays no part."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.call_cases import CASES, Bar, Effort
from benchmarks.call_team import CallTeam, Contender
from benchmarks.children import Child, ChildFailure, environment
from benchmarks.functions import COUNT
from benchmarks.machine import describe
from benchmarks.old_version import OldVersion
from benchmarks.rounds import Outcome, run_case

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TINY = Effort(calls=5, seconds=0.05, batches=1, echoes=1, pings=5, busy=0.5)


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.calls", "--without-old", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)


def test_a_run_prints_the_machine_and_a_row_for_each_way_of_placing_processes(tmp_path: Path) -> None:
    values = tmp_path / "values.json"
    done = bench("--quick", "--rounds", "1", "--only", "ping-while-busy", "--markdown", "--json", str(values))
    assert done.returncode == 0, done.stderr
    assert re.match(r"\d{4}-\d\d-\d\d, .* cores, .*Python 3", done.stdout)
    rows = [
        line
        for line in done.stdout.splitlines()
        if line.startswith("| p99 of pings while a long call waits") and "≤ 20" in line
    ]
    assert len(rows) == done.stdout.count("| case ") == len(json.loads(values.read_text())["outcomes"])
    assert all(re.search(r"\| ≤ 20 ms +\| (yes|\*\*no\*\*) +\|$", row) for row in rows)


@pytest.mark.parametrize(
    ("key", "contenders"),
    [
        ("add-tcp", ("ours", "zmq")),
        ("eight-clients", ("ours", "managers")),
        ("in-flight", ("ours",)),
        ("echo-unix", ("ours", "raw")),
        ("ping-while-busy", ("ours",)),
    ],
)
def test_everybody_has_a_turn_in_every_round(key: str, contenders: tuple[str, ...]) -> None:
    case = next(case for case in CASES if case.key == key)
    taking_part = {name: case.contenders[name] for name in contenders}
    case = replace(case, contenders=taking_part, clients=min(case.clients, 2))
    outcome = run_case(case, TINY, 2, None)
    assert not outcome.failures
    assert {*outcome.values} == {*contenders}
    assert all(len(values) == 2 and min(values) > 0 for values in outcome.values.values())


def test_a_library_that_is_not_installed_is_named_and_left_out() -> None:
    rival = Contender("nobody", "pyro5", "pyro5", needs="no_such_library")
    case = replace(CASES[0], contenders={"ours": rival})
    outcome = run_case(case, TINY, 1, None)
    assert outcome.absent == ["ours"]
    assert "nobody: not installed" in tables.summary(case, outcome)


def test_a_page_is_not_rewritten_by_a_part_of_a_run() -> None:
    done = bench("--quick", "--update-docs")
    assert done.returncode == 2
    assert "whole runs" in done.stderr


def test_the_page_has_a_part_for_each_table() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in ("calls", "functions", "profile"):
        assert page.index(f"<!-- {name}: begin -->") < page.index(f"<!-- {name}: end -->")


def test_only_the_marked_part_of_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- calls: begin -->\nold\n<!-- calls: end -->\nafter\n")
    tables.replace_part(page, "calls", "new")
    assert page.read_text() == "before\n<!-- calls: begin -->\nnew\n<!-- calls: end -->\nafter\n"


@pytest.mark.parametrize(
    ("bar", "met"),
    [
        (Bar("ours", "rival", 1.0), True),
        (Bar("ours", "rival", 0.4), False),
        (Bar("ours", "rival", 1.0, at_least=True), False),
        (Bar("ours", "", 3.0), True),
        (Bar("ours", "rival"), None),
        (Bar("ours", "absent", 1.0), None),
    ],
)
def test_a_bar_is_judged_by_the_median_of_ratios_within_a_round(bar: Bar, met: bool | None) -> None:
    values = {"ours": [2.0, 9.0, 3.0], "rival": [4.0, 6.0, 6.0]}
    assert tables.verdict(CASES[0], bar, Outcome("add-unix", pinned=True, values=values)) is met


def test_a_child_that_cannot_start_tells_why(tmp_path: Path) -> None:
    with Child("call_servers", "no-such-kind", str(tmp_path), environment=environment("k", {})) as child:
        with pytest.raises(ChildFailure, match="no-such-kind"):
            child.receive(30.0)


def test_a_version_that_is_not_in_the_history_is_left_out_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = OldVersion("0" * 40, tmp_path)
    assert old.python() == ""
    assert f"version {'0' * 40} is left out" in capsys.readouterr().err
    assert old.python() == ""
    assert not capsys.readouterr().err


@pytest.mark.parametrize("compiled", [True, False])
def test_variations_of_the_same_call_give_what_it_gives(compiled: bool) -> None:
    case = next(case for case in CASES if case.key == ("no-cliff" if compiled else "no-cliff-python"))
    outcome = run_case(case, TINY, 1, None)
    assert set(outcome.failures) <= {"nested"}
    assert all(min(values) > 0 for values in outcome.values.values())


def test_the_functions_of_a_call_are_counted_at_both_ends() -> None:
    contender = next(case for case in CASES if case.key == "add-unix").contenders["python"]
    with ExitStack() as stack:
        team = CallTeam(contender, 1, {}, None, {COUNT: "1"})
        team.start(stack, "k" * 32)
        client, server = team.functions(20)
    assert 3 <= client[0] / 20 <= 100
    assert 3 <= server[0] / 20 <= 200


def test_a_bar_stands_in_the_table_that_it_is_for() -> None:
    case = replace(CASES[0], bars=(Bar("ours", "", 1.0, pinned=True), Bar("ours", "", 9.0, pinned=False)))
    outcomes = [Outcome("add-unix", pinned=pinned, values={"ours": [2.0]}) for pinned in (True, False)]
    text = tables.results([case], describe(()), "", 1, outcomes)
    assert [line.rsplit("|", 2)[1].strip() for line in text.splitlines() if "add(1, 2)" in line] == [
        "**no**",
        "yes",
    ]
    assert "1 of 2 bars are met" in text
