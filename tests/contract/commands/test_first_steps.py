"""``pzc demo`` and ``pzc bench``: what somebody tries first."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pzc import Server
from pzc.testing import Result, command

Run = Callable[..., Result]

LINES = 9
"""Measurements by each transport."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    folder = tmp_path / "first"
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}

    def shell(*arguments: str) -> Result:
        return command(*arguments, cwd=folder if folder.is_dir() else tmp_path, environment=state)

    yield shell
    if folder.is_dir():
        shell("down")


@pytest.mark.needs("posix")
def test_the_demo_starts_a_lab_of_files_that_are_shown(run: Run, tmp_path: Path) -> None:
    started = run("demo", "first")
    assert (started.status, "pzc set psu.voltage 3.3" in started.out) == (0, True)
    address = next(row["address"] for row in run("status", "--json").rows if row["name"] == "monitor")
    assert address in started.out
    with urllib.request.urlopen(address, timeout=10) as page:
        assert b"<script" in page.read()
    assert run("set", "psu.voltage", "3.3").status == 0
    assert run("get", "psu.voltage").out == "3.3\n"
    watched = run("watch", "dmm/reading", "--count", "1", "--timeout", "30")
    assert (watched.status, watched.err) == (0, "")
    assert "PowerSupply" in (tmp_path / "first" / "instruments.py").read_text()


@pytest.mark.needs("posix")
def test_the_demo_keeps_files_that_were_changed(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "lab.toml").write_text('[server.only]\nobject = "instruments:Multimeter"\n')
    assert command("demo", str(folder), environment={"XDG_STATE_HOME": str(tmp_path / "state")}).status == 0
    assert [row["name"] for row in run("status", "--json").rows] == ["only"]


def test_the_demo_takes_no_file_for_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lab.toml").touch()
    refused = run("demo", "lab.toml")
    assert (refused.status, "is a file: pzc demo DIR takes a folder" in refused.err) == (1, True)


@pytest.mark.needs("unix")
def test_a_bench_measures_calls_and_notifications_by_both_transports() -> None:
    rows = command("bench", "--seconds", "0.02", "--json").rows
    assert [row["transport"] for row in rows] == ["unix"] * LINES + ["tcp"] * LINES
    assert all(row["median_us"] or row["rate_hz"] for row in rows)


def test_a_bench_with_somebody_else_takes_its_echo() -> None:
    with Server(object(), discovery=False) as server:
        outcome = command("bench", server.rep_endpoint, "--seconds", "0.02")
    assert outcome.status == 2
    assert "does not serve pzc.console.echo:Echo: 'add'" in outcome.err
