"""Help, and command lines that cannot mean anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pzc.testing import command

COMMANDS = (
    "serve", "ls", "registry", "doctor", "info", "get", "set", "call", "ping", "watch", "keygen", "stubs", "version",
    "monitor",
    "record", "replay", "journal", "pipeline", "sql", "report", "hz", "bw", "top", "metrics",
    "running", "cancel", "stop", "lock", "unlock", "pub", "up", "down", "status", "restart", "logs", "check", "demo", "bench",
)  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    outcome = command(name, "--help")
    example = "export PZC_KEY=$(pzc keygen)" if name == "keygen" else f"pzc {name}"
    assert (outcome.status, outcome.err) == (0, "")
    assert f"example:\n  {example}" in outcome.out


def test_the_help_names_every_command() -> None:
    out = command("--help").out
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["get"],
        ["get", "psu.voltage", "--tiemout", "3"],
        ["get", "psu.voltage", "--time", "3"],
        ["get", "psu.voltage", "--timeout", "-1"],
        ["get", "psu.voltage", "--timeout", "nan"],
        ["get", "psu.voltage", "more"],
        ["watch", "psu/x", "--count", "0"],
        ["call", "psu.f", "--unknown", "3"],
        ["keygen", "--role", "king"],
    ],
)
def test_a_command_line_that_cannot_be_parsed_is_status_2(arguments: list[str]) -> None:
    outcome = command(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert "error: " in outcome.err


@pytest.mark.parametrize("name", ["ping", "info", "running", "lock", "stop"])
def test_an_endpoint_that_leads_to_nobody_outside_its_process_is_refused(name: str) -> None:
    outcome = command(name, "inproc://psu", "--timeout", "1")
    assert (outcome.status, outcome.out) == (2, "")
    assert "only tcp:// and ipc:// endpoints" in outcome.err


def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_traceback(tmp_path: Path) -> None:
    code = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    (tmp_path / "msgspec.py").write_text(code, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-m", "pzc", "ping", "psu"],
        check=False, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
