"""Parsing, and what becomes of errors."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys

import pytest

from pzc import Server
from pzc.console import main as console
from pzc.console.options import Parser


@pytest.mark.parametrize(
    ("arguments", "free"),
    [
        (["1", "--json", "2", "k=3"], ["1", "2", "k=3"]),
        (["--json", "1", "2"], ["1", "2"]),
        (["-1", "-1e-3", "--json", "-5.", "-2"], ["-1", " -1e-3", " -5.", "-2"]),
        (["--json", "--", "-x", "--json"], ["-x", "--json"]),
    ],
)
def test_arguments_of_a_method_may_stand_before_and_behind_options(
    arguments: list[str], free: list[str]
) -> None:
    args = console.parse(["call", "psu.f", *arguments])
    assert (args.arguments, args.json) == (free, True)


@pytest.mark.parametrize("arguments", [["--debug", "version"], ["version", "--debug"]])
def test_debug_may_stand_on_either_side_of_the_command(arguments: list[str]) -> None:
    assert console.parse(arguments).debug


def test_no_command_pays_for_what_another_one_needs() -> None:
    code = "import sys, pzc.console.main; print(sorted({'numpy', 'rich', 'pyarrow', 'pandas'} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("module", sorted(set(console.MODULES.values())))
def test_a_module_adds_the_commands_that_are_listed(module: str) -> None:
    commands = Parser().add_subparsers()
    importlib.import_module(f"pzc.console.{module}").add_commands(commands)
    assert list(commands.choices) == [name for name, each in console.MODULES.items() if each == module]


def test_a_command_imports_nothing_of_the_others() -> None:
    program = "import sys; from pzc.console.main import parse; parse(sys.argv[1:]); print('pzc.agents.agent' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "keygen"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "False\n"


def test_to_get_a_value_imports_nothing_that_it_does_not_need() -> None:
    others = {
        "asyncio", "ssl", "subprocess", "multiprocessing", "tempfile", "email", "html", "http",
        "numpy", "pandas", "pyarrow", "pint", "rich", "textual", "pzc.aio", "pzc.qt", "pzc.testing", "pzc.lab",
        "pzc.pipeline", "pzc.console.monitor", "pzc.agents.aio", "pzc.agents.serving", "pzc.agents.registry",
    }  # fmt: skip
    program = (
        "import sys; from pzc.console.main import main; assert main(sys.argv[1:]) == 0; print(*sys.modules)"
    )
    with Server(argparse.Namespace(voltage=1.5), discovery=False) as server:
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, "get", f"{server.rep_endpoint}.voltage"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    value, modules = done.stdout.splitlines()
    assert value == "1.5"
    assert others & set(modules.split()) == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "pzc: error: a COMMAND is missing; pzc --help lists them"),
        ("--nope", "pzc: error: unrecognized arguments: --nope: known are --debug, --help, --version"),
        ("--debgu version", "unrecognized arguments: --debgu: did you mean --debug?"),
        ("get", "usage: pzc get [-h]"),
        ("get --tiemout 3", "pzc get: error: unrecognized arguments: --tiemout: did you mean --timeout?"),
        ("get psu.voltage x", "pzc get: error: unrecognized arguments: x"),
        ("doctor --peer psu", "unrecognized arguments: --peer: known are --bind, --debug"),
        ("doctor --spak", "unrecognized arguments: --spak: did you mean --spark?"),
        ("logs psu --folow", "unrecognized arguments: --folow: did you mean --follow?"),
        ("pipeline run a", "pzc pipeline run: error: TABLES is missing"),
        ("set", "pzc set: error: N.ATTRIBUTE and value are missing"),
        ("serve --poll a=1", "pzc serve: error: MODULE:CLASS is missing"),
        ("journal", "pzc journal: error: a JOB is missing: info, verify"),
        ("pipeline backfill a b --from soon --to 2026-01-31", "--from: soon is no day such as 2026-01-31"),
        ("pipeline run a b --in-process some", "--in-process: some is not a positive whole number"),
        ("replay a --speed fast", "--speed: fast is no speed: a positive number, or max"),
        ("top --count x", "argument -n/--count: x is not a positive whole number"),
        ("lock psu --for soon", "soon is not a positive number of seconds"),
        ("metrics --port 99999", "argument --port: 99999 is not a port, 0 to 65535"),
    ],
)
def test_a_wrong_word_is_told_with_the_command_and_what_was_expected(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        console.main(arguments.split())
    assert said in capsys.readouterr().err
