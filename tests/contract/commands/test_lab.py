"""``pzc up`` and its companions: a lab in one file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc import Proxy, UnknownName, close, lock
from pzc.testing import Running

from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.labs import SUPPLY, TIMEOUT, Bench, await_gone, is_there, parent

pytestmark = pytest.mark.needs("posix")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    try:
        yield made
    finally:
        made.run("down")


class Held:
    """A proxy that is closed.

    Args:
        endpoint: of its server.
    """

    def __init__(self, endpoint: str) -> None:
        self.proxy: Any = Proxy(endpoint, timeout=TIMEOUT)

    def close(self) -> None:
        close(self.proxy)


def test_up_returns_when_all_run_and_down_when_all_have_ended(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[server.dmm]\nobject = "bench:Supply"\n')
    assert bench.run("up").status == 0
    pids = [row["pid"] for row in bench.run("status", "--json").rows]
    assert [is_there(pid) for pid in pids] == [True, True]
    assert bench.run("down").status == 0
    assert not any(map(is_there, pids))


def test_a_lab_that_a_service_started_is_the_one_of_whoever_logs_in(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    service = Bench(tmp_path, XDG_RUNTIME_DIR="")
    login = Bench(tmp_path, XDG_RUNTIME_DIR=str(tmp_path / "run"))
    service.write(SUPPLY)
    assert service.run("up").status == 0
    try:
        assert login.row("psu")["state"] == "running"
        pid = login.row("psu")["pid"]
        assert login.run("up").status == 0
        assert service.row("psu")["pid"] == login.row("psu")["pid"] == pid
        assert login.run("down").status == 0
        assert not is_there(pid)
    finally:
        service.run("down")


def test_a_lab_whose_log_cannot_be_written_says_so(bench: Bench) -> None:
    bench.write(SUPPLY)
    assert bench.run("up").status == 0
    bench.run("down")
    (log,) = bench.folder.glob("state/**/lab.log")
    log.unlink()
    log.mkdir()
    outcome = bench.run("up")
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert "Is a directory" in outcome.err


def test_whoever_does_not_start_is_told_with_the_reason(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[server.wrong]\nobject = "bench:Wrong"\nargs = ["10.0.0.7"]\n')
    started = bench.run("up")
    assert started.status == 1
    assert "no route to 10.0.0.7" in started.out
    assert "pzc logs wrong" in started.err
    assert bench.row("psu")["state"] == "running"


def test_the_metrics_of_a_lab_start_and_end_with_it(bench: Bench) -> None:
    port = int(free_endpoint().rpartition(":")[2])
    bench.write(f"metrics = {port}\n{SUPPLY}")
    assert bench.run("up").status == 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT) as answer:
        assert b"pzc_troubles" in answer.read()
    pid = bench.row("metrics")["pid"]
    bench.run("down")
    assert not is_there(pid)


def test_the_metrics_of_a_lab_tell_its_processes(bench: Bench) -> None:
    bench.write(f"metrics = 0\n{SUPPLY}")
    assert bench.run("up").status == 0
    address, expected = bench.row("metrics")["address"], 'pzc_process_up{kind="server",process="psu"} 1.0'
    found = ""
    for _ in range(300):
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            found = answer.read().decode()
        if expected in found:
            break
    assert expected in found


def test_restarts_are_spaced(bench: Bench) -> None:
    bench.write('[server.leaving]\nobject = "bench:Leaving"\nrestart = "always"\n')
    bench.run("up")
    third = bench.await_row("leaving", lambda row: row["restarts"] >= 3 and row["state"] == "waiting")
    assert 2.0 < third["due"] <= 4.0


def test_never_is_never_started_again(bench: Bench) -> None:
    bench.write('[server.leaving]\nobject = "bench:Leaving"\nrestart = "never"\n')
    bench.run("up")
    failed = bench.await_row("leaving", lambda row: row["state"] == "failed")
    assert (failed["restarts"], failed["does"]) == (0, "warming up")


def test_status_tells_what_runs(bench: Bench) -> None:
    bench.write(SUPPLY)
    bench.run("up")
    assert bench.row("psu")["does"] == "idle"
    with contextlib.closing(Held(bench.row("psu")["endpoint"])) as psu:
        psu.proxy.ramp.future(3.0)
        assert bench.await_row("psu", lambda row: row["does"] != "idle")["does"].startswith("ramp for ")


def test_status_tells_who_holds_the_lock(bench: Bench) -> None:
    bench.write(SUPPLY)
    bench.run("up")
    with contextlib.closing(Held(bench.row("psu")["endpoint"])) as psu, lock(psu.proxy):
        assert bench.row("psu")["lock"]


def test_up_again_makes_a_changed_file_true_and_leaves_the_rest(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[server.old]\nobject = "bench:Supply"\n[server.dmm]\nobject = "bench:Supply"\n')
    bench.run("up")
    before = {row["name"]: row["pid"] for row in bench.run("status", "--json").rows}
    bench.write(
        f'{SUPPLY}[server.dmm]\nobject = "bench:Supply"\nconcurrency = 2\n[server.new]\nobject = "bench:Supply"\n'
    )
    assert bench.run("up").status == 0
    after = {row["name"]: row["pid"] for row in bench.run("status", "--json").rows}
    assert after.keys() == {"psu", "dmm", "new"}
    assert after["psu"] == before["psu"]
    assert after["dmm"] != before["dmm"]
    assert not is_there(before["old"])


def test_two_that_start_a_lab_at_once_both_get_what_they_asked_for(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[server.dmm]\nobject = "bench:Supply"\n')
    starting = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "pzc", "up", name], cwd=bench.folder, env=bench.environment(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for name in ("psu", "dmm")
    ]  # fmt: skip
    assert [process.wait(TIMEOUT) for process in starting] == [0, 0]
    assert {row["state"] for row in bench.run("status", "--json").rows} == {"running"}


def test_status_shows_what_runs_and_is_gone_from_the_file(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[server.old]\nobject = "bench:Supply"\n')
    bench.run("up")
    bench.write(SUPPLY)
    assert [row["name"] for row in bench.run("status", "--json").rows] == ["psu", "old"]


def test_one_process_can_be_ended_started_and_restarted(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[server.dmm]\nobject = "bench:Supply"\n')
    bench.run("up", "psu")
    assert [row["state"] for row in bench.run("status", "--json").rows] == ["running", "stopped"]
    assert bench.row("dmm")["since"] is None
    assert bench.run("up", "dmm").status == 0
    first = bench.row("psu")["pid"]
    assert bench.run("restart", "psu").status == 0
    assert bench.row("psu")["pid"] not in (0, first)
    assert bench.run("down", "psu").status == 0
    assert bench.row("psu")["state"] == "stopped"


def test_a_restart_that_fails_is_told_with_the_reason(bench: Bench) -> None:
    bench.write(SUPPLY)
    bench.run("up")
    (bench.folder / "bench.py").write_text("class Supply:\n    voltage = = 1.0\n", encoding="utf-8")
    failed = bench.run("restart", "psu")
    assert failed.status == 1
    assert "SyntaxError" in failed.out
    assert "pzc logs psu" in failed.err


def test_a_line_of_json_of_a_driver_is_not_taken_for_where_its_server_is(bench: Bench) -> None:
    bench.write('[server.psu]\nobject = "bench:Telling"\n')
    bench.run("up")
    assert bench.row("psu")["endpoint"].startswith("tcp://127.0.0.1:")


def test_a_driver_that_leaves_a_line_open_is_seen_to_run(bench: Bench) -> None:
    bench.write('[server.psu]\nobject = "bench:Dotting"\n')
    bench.run("up")
    assert bench.row("psu")["state"] == "running"
    assert bench.row("psu")["endpoint"].startswith("tcp://127.0.0.1:")


def test_what_was_ended_before_is_ended_and_can_be_restarted(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[server.dmm]\nobject = "bench:Supply"\n')
    bench.run("up")
    dmm = bench.row("dmm")["pid"]
    assert [bench.run("down", "psu").status for _ in range(2)] == [0, 0]
    assert bench.run("restart", "psu").status == 0
    assert (bench.row("psu")["state"], bench.row("dmm")["pid"]) == ("running", dmm)


def test_logs_tell_what_a_process_wrote(bench: Bench) -> None:
    bench.write('[server.leaving]\nobject = "bench:Leaving"\n')
    bench.run("up")
    bench.await_row("leaving", lambda row: row["restarts"])
    told = bench.run("logs", "leaving", "-n", "50").out
    assert "warming up" in told
    assert "ended with status 3; again in 1 s" in told


def test_logs_follow(bench: Bench) -> None:
    bench.write('[server.leaving]\nobject = "bench:Leaving"\nrestart = "always"\n')
    bench.run("up")

    def meanwhile(running: Running) -> None:
        lines = [running.line(TIMEOUT) for _ in range(4)]
        assert any("warming up" in line for line in lines)

    bench.run("logs", "leaving", "-f", "-n", "1", meanwhile=meanwhile)


@pytest.mark.parametrize(
    "words", [("logs",), ("logs", "psy"), ("restart", "psy"), ("up", "psy"), ("down", "psy")]
)
def test_a_wrong_name_is_refused_with_those_that_are_there(bench: Bench, words: tuple[str, ...]) -> None:
    bench.write(SUPPLY)
    bench.run("up")
    refused = bench.run(*words)
    assert refused.status in (1, 2)
    assert "psu" in refused.err


@pytest.mark.parametrize("verb", ["status", "restart"])
def test_a_lab_that_is_not_up_is_told(bench: Bench, verb: str) -> None:
    bench.write(SUPPLY)
    refused = bench.run(verb)
    assert refused.status == 1
    assert "not up" in refused.err


def test_what_is_down_already_is_no_error_to_end(bench: Bench) -> None:
    bench.write(SUPPLY)
    ended = bench.run("down")
    assert (ended.status, ended.out) == (0, "")
    assert "not up: nothing to end" in ended.err


@pytest.mark.parametrize("verb", ["up", "status", "down", "restart", "check"])
def test_a_folder_without_a_lab_file_is_told(bench: Bench, verb: str) -> None:
    refused = bench.run(verb)
    assert refused.status == 1
    assert f"lab file {bench.folder / 'lab.toml'} cannot be read: No such file or directory" in refused.err


@pytest.mark.parametrize(
    ("where", "expected"),
    [("value_double > 3", ""), ("valu > 3", "limit 'high' cannot be judged"), ("", "needs where")],
)
def test_check_looks_into_the_limits(bench: Bench, where: str, expected: str) -> None:
    pytest.importorskip("duckdb")
    bench.write(f'{SUPPLY}[recorder]\njournal = "j"\n[pipeline]\ntables = "t"\nlimits = "limits.toml"\n')
    (bench.folder / "limits.toml").write_text(f'[limits.high]\nwhere = "{where}"\n', encoding="utf-8")
    checked = bench.run("check")
    assert checked.status == (1 if expected else 0)
    assert expected in checked.err


def test_a_killed_pzc_up_leaves_no_process_and_neither_do_its_servers(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[server.parent]\nobject = "bench:Parent"\n')
    assert bench.run("up").status == 0
    child = int(bench.run("get", f"{bench.row('parent')['endpoint']}.child").out)
    pids = [child, *(row["pid"] for row in bench.run("status", "--json").rows)]
    assert all(map(is_there, pids))
    os.kill(parent(parent(pids[1])), signal.SIGKILL)
    for pid in pids:
        await_gone(pid)


def test_whoever_started_others_leaves_none_of_them(bench: Bench) -> None:
    bench.write('[server.parent]\nobject = "bench:Parent"\n')
    bench.run("up")
    child = int(bench.run("get", f"{bench.row('parent')['endpoint']}.child").out)
    os.kill(bench.row("parent")["pid"], signal.SIGKILL)
    await_gone(child)


def test_whoever_does_not_end_in_its_time_is_killed(bench: Bench) -> None:
    bench.write(SUPPLY, grace=0.5)
    bench.run("up")
    pid = bench.row("psu")["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert bench.run("down").status == 0
    assert not is_there(pid)


def test_a_recorder_runs_until_what_it_records_has_ended(bench: Bench) -> None:
    bench.write(f'{SUPPLY}[recorder]\njournal = "journal"\n', grace=1.0)
    bench.run("up")
    server, recorder = (bench.row(name)["pid"] for name in ("psu", "recorder"))
    os.kill(server, signal.SIGSTOP)
    seen = list[bool]()

    def look(_: Running) -> None:
        while is_there(server):
            seen.append(is_there(recorder))
        await_gone(recorder)

    bench.run("down", meanwhile=look)
    assert all(seen)


def test_a_unit_for_systemd_names_the_lab_file(bench: Bench) -> None:
    bench.write(SUPPLY)
    told = bench.run("up", "--systemd")
    assert told.status == 0
    unit = Path(told.out.split(" is written")[0]).read_text(encoding="utf-8")
    assert f'up --foreground "{bench.folder / "lab.toml"}"' in unit
    assert {"Wants=network-online.target", "After=network-online.target"} <= set(unit.splitlines())


def test_a_process_whose_keeper_was_killed_is_started_again_with_all_that_it_had_started(
    bench: Bench,
) -> None:
    bench.write('[server.parent]\nobject = "bench:Heir"\n', grace=1.0)
    assert bench.run("up").status == 0
    pid = bench.row("parent")["pid"]
    with contextlib.closing(Held("parent")) as held:
        child = held.proxy.child
    os.kill(parent(pid), signal.SIGKILL)
    await_gone(child)
    bench.await_row("parent", lambda row: row["state"] == "running" and row["pid"] not in (0, pid))


def test_in_the_foreground_a_lab_ends_with_ctrl_c(bench: Bench) -> None:
    bench.write(SUPPLY)

    def meanwhile(running: Running) -> None:
        deadline, voltage = time.monotonic() + TIMEOUT, 0.0
        while not voltage:
            assert time.monotonic() < deadline
            assert not running.wait(0.05), running.err
            with contextlib.suppress(UnknownName), contextlib.closing(Held("psu")) as psu:
                voltage = psu.proxy.voltage

    assert bench.run("up", "--foreground", meanwhile=meanwhile).status == 0
    assert "not up" in bench.run("status").err


def test_a_lab_that_is_ended_while_it_starts_starts_nothing_more(bench: Bench) -> None:
    bench.write('[recorder]\njournal = "journal"\n[server.hanging]\nobject = "bench:Hanging"\n')

    def meanwhile(running: Running) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not any("hanging" in log.read_text() for log in bench.folder.glob("state/**/hanging.log")):
            assert time.monotonic() < deadline
            assert not running.wait(0.05), running.err

    assert bench.run("up", "--foreground", meanwhile=meanwhile).status == 0
    assert not (bench.folder / "journal").exists()
