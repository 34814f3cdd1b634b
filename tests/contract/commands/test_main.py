"""Help, and command lines that cannot mean anything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    "arguments", [["watch", "psu/x", "--timeout", "1e30"], ["ls", "--timeout", "1e30"], ["lock", "psu", "--wait", "1e30"]]
)  # fmt: skip
def test_longer_than_a_system_can_wait_is_refused(arguments: list[str]) -> None:
    outcome = command(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert "1e30 is not a positive number of seconds, 1e+09 at most" in outcome.err


@pytest.mark.parametrize("option", ["--keep-days", "--keep-gb"])
def test_what_is_no_time_is_no_number_of_seconds(option: str) -> None:
    outcome = command("record", "psu", "--journal", "nowhere", option, "0")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"argument {option}: 0 is not a positive number, 1e+09 at most" in outcome.err


@pytest.mark.parametrize("arguments", [["set", "psu.label", "-x"], ["call", "psu.f", "-x"], ["get", "-x"]])
def test_a_value_that_looks_like_an_option_is_told_where_it_stands(arguments: list[str]) -> None:
    outcome = command(*arguments)
    assert outcome.status == 2
    assert "a value that begins with - stands behind --" in outcome.err


def test_an_option_of_one_letter_is_not_taken_for_what_is_wrong() -> None:
    assert "is missing" in command("watch", "-n", "3").err


@pytest.mark.parametrize("name", ["ping", "info", "running", "lock", "stop"])
def test_an_endpoint_that_leads_to_nobody_outside_its_process_is_refused(name: str) -> None:
    outcome = command(name, "inproc://psu", "--timeout", "1")
    assert (outcome.status, outcome.out) == (2, "")
    assert "only tcp:// and ipc:// endpoints" in outcome.err


@pytest.mark.parametrize("module", ["argparse", "msgspec"])
def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_traceback(tmp_path: Path, module: str) -> None:
    code = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-m", "pzc", "ping", "psu"],
        check=False, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def interpret(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in an interpreter of its own, whose output is buffered as ever."""
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-P", "-m", "pzc", *arguments],
        check=False, text=True, timeout=60, env=environment, **pipes,
    )  # fmt: skip


@pytest.fixture
def unread() -> Iterator[int]:
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.needs("posix")
@pytest.mark.parametrize("arguments", [["--help"], ["get", "--help"], ["--version"]])
def test_help_for_a_reader_who_is_gone_ends_in_silence(arguments: list[str], unread: int) -> None:
    ended = interpret(*arguments, stdout=unread)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.needs("posix")
def test_help_for_a_full_disk_is_an_error() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = interpret("--help", stdout=full)
    assert (ended.returncode, ended.stderr) == (1, "pzc: OSError: [Errno 28] No space left on device\n")


@pytest.mark.needs("posix")
def test_without_stderr_no_message_is_among_the_data() -> None:
    ended = interpret(
        "ping", "tcp://127.0.0.1:1", "--timeout", "0.1", "--json", preexec_fn=partial(os.close, 2)
    )
    assert (ended.returncode, ended.stdout) == (1, "")


@pytest.mark.needs("posix")
def test_without_stdin_top_prints_text(unread: int) -> None:
    ended = interpret("top", "tcp://127.0.0.1:1", stdout=unread, preexec_fn=partial(os.close, 0))
    assert (ended.returncode, ended.stderr) == (141, "")
