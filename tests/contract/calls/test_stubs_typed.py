"""What type checkers say of programs that use served instruments by their stubs."""

from __future__ import annotations

import datetime
import enum
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pzc

from tests.contract.calls.test_stubs_checked import Scope
from tests.contract.rigs.calling import served


class Mode(enum.Enum):
    """What a channel keeps constant."""

    VOLTAGE = "cv"
    CURRENT = "cc"


class Span(enum.IntEnum):
    """An enum that is a number."""

    LOW = 1
    HIGH = 2


class Range:
    """Something that is called and has attributes."""

    unit: str = "V"

    def __call__(self, value: float = 1.0) -> float:
        return value


class Channel:
    """One output."""

    def __init__(self) -> None:
        self.range = Range()
        self.since = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    @property
    def voltage(self) -> float:
        """Output in volts."""
        return 0.0

    @voltage.setter
    def voltage(self, value: float) -> None: ...

    def trace(self) -> np.ndarray:
        return np.zeros(3)


class Supply:
    """A supply with channels."""

    modules: dict[str, Channel]

    def __init__(self) -> None:
        self.ch1 = Channel()
        self.mode = Mode.VOLTAGE
        self.channels = [self.ch1]
        self.modules = {"a": self.ch1}

    @property
    def active(self) -> Channel:
        """The channel in use."""
        return self.ch1

    def switch(self, mode: Mode, span: Span = Span.LOW) -> list[Span]:
        """Both are enums."""
        return [span]

    def pick(self, n: int) -> Channel:
        return self.channels[n]


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
    from supply import Channel, Mode, Range, Span, Supply

supply = cast("Supply", pzc.Proxy("supply"))
assert_type(supply.ch1, "Channel")
supply.ch1.voltage = 3.3
assert_type(supply.ch1.voltage, float)
assert_type(supply.ch1.range(2.0), float)
assert_type(supply.ch1.range.unit, str)
assert_type(supply.ch1.since, datetime.datetime)
assert_type(supply.ch1.trace(), npt.NDArray[Any])
assert_type(supply.mode, "Mode")
assert_type(supply.switch(Mode.VOLTAGE, Span.HIGH), "list[Span]")
supply.mode = Mode.CURRENT
word: str = Mode.CURRENT.value
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three programs beside the stubs of what they use."""
    for name, instrument in (("scope", Scope()), ("supply", Supply())):
        with served(instrument) as (_, proxy):
            (tmp_path / f"{name}.pyi").write_text(pzc.stubs(proxy), encoding="utf-8")
    for name, program in (("right", RIGHT), ("inside", INSIDE), ("wrong", WRONG)):
        (tmp_path / f"{name}.py").write_text(program, encoding="utf-8")
    # A link: a type checker cannot follow the import hook of an editable install.
    types = tmp_path / "types"
    types.mkdir()
    place = importlib.util.find_spec("pzc")
    assert place is not None
    assert place.origin is not None
    (types / "pzc").symlink_to(Path(place.origin).parent)
    return tmp_path


def checked(folder: Path, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """What a type checker says in that folder."""
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
        env={**os.environ, **environ},
    )


@pytest.mark.skipif(not importlib.util.find_spec("basedpyright"), reason="basedpyright is not installed")
@pytest.mark.timeout(180)
def test_basedpyright_accepts_what_is_right_and_finds_every_misuse(folder: Path) -> None:
    environment = Path(sysconfig.get_path("data"))
    options = {
        "venvPath": str(environment.parent), "venv": environment.name, "extraPaths": [str(folder / "types")],
        "typeCheckingMode": "standard", "pythonVersion": "3.11", "include": ["*.py", "*.pyi"],
    }  # fmt: skip
    (folder / "pyrightconfig.json").write_text(json.dumps(options), encoding="utf-8")
    program = Path(sysconfig.get_path("scripts"), "basedpyright")
    done = checked(folder, program, "--outputjson", "--level", "error", "--project", folder)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 5
    first = WRONG.splitlines().index("scope.levle")
    expected = {("wrong.py", line) for line in range(first, len(WRONG.splitlines()))}
    found = {(Path(each["file"]).name, each["range"]["start"]["line"]) for each in told["generalDiagnostics"]}
    assert found == expected, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed: pip install mypy")
def test_mypy_accepts_what_is_right(folder: Path) -> None:
    arguments = [
        "--follow-imports=silent",
        "--python-version=3.11",
        "right.py",
        "inside.py",
        "scope.pyi",
        "supply.pyi",
    ]
    done = checked(folder, sys.executable, "-m", "mypy", *arguments, MYPYPATH=str(folder / "types"))
    assert done.returncode == 0, done.stdout + done.stderr
