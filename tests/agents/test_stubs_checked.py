"""A type checker's view of a served instrument, and what the proxy itself tells."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import pzc
from pzc import stubs
from pzc.agents.stubs.stubs import stub_text

from tests.agents.test_stubs import NESTED, TYPES
from tests.contract.calls.test_stubs_checked import Scope
from tests.contract.rigs.calling import served

RIGHT = """
from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, assert_type, cast

import numpy as np
import numpy.typing as npt
import pzc

if TYPE_CHECKING:
    from scope import Scope

with cast("Scope", pzc.Proxy("scope")) as scope:
    assert_type(scope.level, float)
    scope.level = 3.3
    assert_type(scope.label, str)
    assert_type(scope.trace(3, average=True), npt.NDArray[np.float64])
    assert_type(scope.trace.options(timeout=5, idempotent=True)(3, start=1), npt.NDArray[np.float64])
    future: Future[npt.NDArray[np.float64]] = scope.trace.future(3)
    assert_type(scope.trace.oneway(3), None)
    assert_type(scope.trace.__doc__, str | None)
    for frame in scope.frames():
        assert_type(frame, int)
    with scope.frames(4) as frames:
        frames.close()
    scope.triggered.connect(print, pzc.latest())
    scope.triggered.emit(1)
    assert_type(scope.settings["slew"], float)
    assert_type(scope.settings.get("slew"), float | None)
    scope.settings["slew"] = 1.5
    scope.settings = {"slew": 2.0}
    assert_type([key for key in scope.settings], list[str])
    pzc.close(scope)

annotated: Scope = pzc.Proxy("scope")  # type: ignore[assignment]
"""

INSIDE = """
from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, assert_type, cast

import numpy.typing as npt
import pzc

if TYPE_CHECKING:
    from scope import Channel, Range, Supply

supply = cast("Supply", pzc.Proxy("supply"))
assert_type(supply.ch1, "Channel")
supply.ch1.voltage = 3.3
assert_type(supply.ch1.voltage, float)
assert_type(supply.ch1.range(2.0), float)
assert_type(supply.ch1.range.unit, str)
assert_type(supply.ch1.since, datetime.datetime)
assert_type(supply.ch1.trace(), npt.NDArray[Any])
assert_type(supply.pick(1), "Channel")
assert_type(supply.active.voltage, float)
for channel in supply.channels:
    assert_type(channel, "Channel")
assert_type(supply.channels[0].voltage, float)
assert_type(supply.modules["a"], "Channel")
with pzc.lock(supply, ttl=3), pzc.batch(supply) as calls:
    calls.ch1.voltage = 2
pzc.running(supply.ch1)
assert_type(pzc.path(supply.ch1), str)
"""

WRONG = """
from typing import cast

import pzc
from scope import Scope

scope = cast(Scope, pzc.Proxy("scope"))
scope.levle
scope.levle = 3
scope.level = "high"
scope.serial = "x"
scope.triggered = None
scope.trace("3")
scope.trace(count=3)
scope.trace(3, 0, True)
scope.trace.future()
scope.trace.options(retries=3)
scope.frames(step=3)
scope.settings["slew"] = "fast"
scope.settings[3]
"""


def _stub_of_scope() -> str:
    with served(Scope()) as (_, proxy):
        return stubs(proxy)


def _checked(folder: Path, name: str, text: str, stub: str | None = None) -> dict[str, Any]:
    """What basedpyright says of a program beside a stub; default that of a served `Scope`."""
    (folder / "scope.pyi").write_text(stub or _stub_of_scope(), encoding="utf-8")
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    # A link: a type checker cannot follow the import hook of an editable install.
    types = folder / "types"
    types.mkdir()
    (types / "pzc").symlink_to(Path(pzc.__file__).parent)
    options = {
        "venvPath": str(Path(sysconfig.get_path("data")).parent), "venv": Path(sysconfig.get_path("data")).name,
        "extraPaths": [str(types)], "typeCheckingMode": "standard", "pythonVersion": "3.11",
        "include": [f"{name}.py", "scope.pyi"],
    }  # fmt: skip
    (folder / "pyrightconfig.json").write_text(json.dumps(options), encoding="utf-8")
    program = Path(sysconfig.get_path("scripts"), "basedpyright")
    result = subprocess.run(
        [program, "--outputjson", "--level", "error", "--project", folder],
        cwd=folder, capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    return json.loads(result.stdout)


@pytest.mark.timeout(180)
def test_a_type_checker_accepts_the_stub_and_a_program_that_uses_it_well(tmp_path: Path) -> None:
    told = _checked(tmp_path, "right", RIGHT)
    assert told["summary"]["filesAnalyzed"] == 2
    assert told["generalDiagnostics"] == []


@pytest.mark.timeout(180)
def test_a_type_checker_finds_every_misuse_of_the_instrument(tmp_path: Path) -> None:
    told = _checked(tmp_path, "wrong", WRONG)
    lines = {diagnostic["range"]["start"]["line"] for diagnostic in told["generalDiagnostics"]}
    first = WRONG.splitlines().index("scope.levle")
    assert lines == set(range(first, len(WRONG.splitlines())))


@pytest.mark.timeout(180)
def test_a_type_checker_knows_what_is_in_an_instrument(tmp_path: Path) -> None:
    told = _checked(tmp_path, "inside", INSIDE, stub_text("Supply", NESTED, "", TYPES))
    assert told["summary"]["filesAnalyzed"] == 2
    assert told["generalDiagnostics"] == []


@pytest.mark.timeout(180)
@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed: pip install mypy")
@pytest.mark.parametrize("program", [RIGHT, INSIDE], ids=["right", "inside"])
def test_mypy_accepts_the_stub_and_a_program_that_uses_it_well(tmp_path: Path, program: str) -> None:
    stub = _stub_of_scope() if program is RIGHT else stub_text("Supply", NESTED, "", TYPES)
    (tmp_path / "scope.pyi").write_text(stub, encoding="utf-8")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    (tmp_path / "pzc").symlink_to(Path(pzc.__file__).parent)
    arguments = ["--follow-imports=silent", "--python-version=3.11", "program.py", "scope.pyi"]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
