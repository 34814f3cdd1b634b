"""What stopped a lab that tried it: words, helps, types, the first lines, Qt, signals, lab files."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pydoc
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc import Proxy, PzcError, Server, Signal, lock
from pzc.testing import Running, command

from tests.contract.rigs.supply import TIMEOUT

ROOT = Path(__file__).resolve().parents[3]
OTHER: Any = 5555
"""Neither an endpoint nor a name nor a proxy."""

GROUPS = ("Instruments", "Notifications", "Recording", "Lab", "Keys and networks", "Tools")


class PowerSupply:
    """A power supply with one output."""

    def __init__(self) -> None:
        self.changed = Signal()
        self._voltage = 0.0

    @property
    def voltage(self) -> float:
        """Output in volts."""
        return self._voltage

    @voltage.setter
    def voltage(self, value: float) -> None:
        old, self._voltage = self._voltage, value
        self.changed.emit(value, old)

    def ramp(self, stop: float) -> None:
        """Go there in steps."""


@pytest.fixture
def psu() -> Iterator[str]:
    """Where a power supply is served."""
    with Server(PowerSupply(), name="psu", discovery=False) as server:
        yield server.rep_endpoint


# --- wrong words and arguments ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "right"),
    [(["call", "rmp", "3"], "did you mean ramp"), (["get", "volage"], "did you mean voltage")],
)
def test_a_misspelt_member_is_told_the_nearest(psu: str, arguments: list[str], right: str) -> None:
    name, member, *others = arguments
    assert right in command(name, f"{psu}.{member}", *others).err


def test_a_misspelt_signal_is_told_the_nearest(psu: str) -> None:
    assert "did you mean changed" in command("watch", f"{psu}/chnged", "--timeout", "0.2").err


def test_an_address_without_its_scheme_is_told_with_it() -> None:
    outcome = command("get", "127.0.0.1:5555.voltage", "--timeout", "0.1")
    assert outcome.status != 0
    assert "tcp://127.0.0.1:5555" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "right"),
    [(["gte", "psu.voltage"], "did you mean get"), (["get", "psu.voltage", "--tiemout", "3"], "--timeout")],
)
def test_a_misspelt_command_or_option_is_told_the_nearest(arguments: list[str], right: str) -> None:
    outcome = command(*arguments)
    assert outcome.status == 2
    assert right in outcome.err


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Server(object(), OTHER), "tcp://"),
        (lambda: Proxy(OTHER), "tcp://"),
        (lambda: lock(OTHER), "Proxy"),
    ],
    ids=["server", "proxy", "lock"],
)
def test_an_argument_of_another_kind_is_told_with_what_is_meant(
    make: Callable[[], object], expected: str
) -> None:
    with pytest.raises(PzcError, match=expected):
        make()


def test_the_help_groups_the_commands() -> None:
    lines = [line.strip().rstrip(":") for line in command("--help").out.splitlines()]
    assert [line for line in lines if line in GROUPS] == list(GROUPS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell: str) -> None:
    outcome = command("completion", shell)
    assert outcome.status == 0
    assert all(name in outcome.out for name in ("pzc", "serve", "watch"))


# --- what a proxy tells of itself ------------------------------------------------------------------


def test_a_proxy_names_itself_by_name_class_and_place(psu: str) -> None:
    with Proxy(psu) as proxy:
        assert repr(proxy) == f"<Proxy of psu: PowerSupply at {psu}>"


def test_help_explains_the_served_class(psu: str) -> None:
    with Proxy(psu) as proxy:
        told = re.sub(".\b", "", pydoc.render_doc(proxy))
    assert "A power supply with one output." in told
    assert "Output in volts." in told


def test_an_error_in_a_notebook_is_one_line(psu: str) -> None:
    code = f"import pzc\npsu = pzc.Proxy({psu!r})\npsu.rmp\n"
    shell = [sys.executable, "-m", "IPython", "--colors=NoColor", "--no-banner", "--quick", "-c", code]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    told = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert "rmp" in told[-1]
    assert len(told) <= 3


# --- type checkers ---------------------------------------------------------------------------------


def test_a_stub_has_only_signatures_that_every_checker_takes(psu: str) -> None:
    tree = ast.parse(command("stubs", psu).out)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    special = {each.name: each for each in functions if each.name in ("__getattr__", "__setattr__")}
    taken = {name: ast.unparse(each.args.args[1].annotation or each.args) for name, each in special.items()}
    assert set(taken.values()) <= {"str"}, taken


@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed: pip install mypy")
def test_mypy_accepts_a_stub(psu: str, tmp_path: Path) -> None:
    command("stubs", psu, "--output", "psu.pyi", cwd=tmp_path)
    # A link: a type checker cannot follow the import hook of an editable install.
    (tmp_path / "pzc").symlink_to(ROOT)
    check = [sys.executable, "-m", "mypy", "--follow-imports=silent", "psu.pyi"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


# --- documents -------------------------------------------------------------------------------------


def test_the_first_lines_of_the_readme_run() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stderr


# --- Qt --------------------------------------------------------------------------------------------


def test_slots_and_calls_of_a_qt_program_need_no_qt_before() -> None:
    qt = importlib.import_module("pzc.qt")
    assert callable(qt.connect)
    assert callable(qt.call)
    assert not {"PySide6", "PyQt6"} & sys.modules.keys()


class Emit:
    """A bound Qt signal's emit: it takes one argument, and tells nobody."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, *args: Any) -> None:
        if len(args) != 1:
            raise TypeError(f"emit() takes 1 argument ({len(args)} given)")
        self.seen += args

    @property
    def __signature__(self) -> Any:
        raise ValueError("no signature found")


def test_a_slot_of_unknown_signature_gets_as_many_values_as_it_takes() -> None:
    emit, supply = Emit(), PowerSupply()
    supply.changed.connect(emit)
    supply.voltage = 3.0
    assert emit.seen == [3.0]


# --- signals ---------------------------------------------------------------------------------------


# --- the lab file ----------------------------------------------------------------------------------

BENCH = """
class Supply:
    voltage = 1.0
"""
LAB = """
[lab]
name = "bench"
[server.psu]
object = "bench:Supply"
bind = "tcp://127.0.0.1:0"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bench.py").write_text(BENCH, encoding="utf-8")
    (tmp_path / "lab.toml").write_text(LAB, encoding="utf-8")
    return tmp_path


def test_a_lab_file_is_checked_without_starting_anything(folder: Path) -> None:
    assert command("check", "lab.toml", cwd=folder).status == 0
    (folder / "lab.toml").write_text(LAB.replace("object", "objet"), encoding="utf-8")
    wrong = command("check", "lab.toml", cwd=folder)
    assert wrong.status == 1
    assert "did you mean object" in wrong.err


def process_of(name: str) -> int:
    """Number of the process that serves under a name; 0 while there is none."""
    rows = command("ls", "--json", "--timeout", "0.2").rows
    return next((row["pid"] for row in rows if row["name"] == f"/{name}"), 0)


@pytest.mark.needs("posix")
def test_a_killed_server_of_a_lab_file_is_started_again(folder: Path) -> None:
    (folder / "lab.toml").write_text(f'{LAB}restart = "always"\n', encoding="utf-8")
    try:
        assert command("up", "lab.toml", cwd=folder).status == 0
        deadline = time.monotonic() + TIMEOUT
        while not (first := process_of("psu")):
            assert time.monotonic() < deadline
        os.kill(first, signal.SIGKILL)
        while process_of("psu") in (0, first):
            assert time.monotonic() < deadline
    finally:
        command("down", cwd=folder)


def test_top_finds_agents_by_itself() -> None:
    def meanwhile(running: Running) -> None:
        while "psu" not in running.out:
            assert not running.wait(0.05), running.err

    with Server(PowerSupply(), name="psu"):
        command("top", "--every", "0.1", meanwhile=meanwhile)
