"""The house rules that a machine can prove: packages, layers, sizes, docstrings, leaks, commands."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import pzc

from tests.circles import circles, graph_of
from tests.conftest import WHEEL

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
BUILT = {"build", "dist"}
BESIDE = {"benchmarks", "docs", "examples", "tests"}
MAX_LINES = 400


def _house_files() -> list[Path]:
    """Every Python file of the project, relative to its root."""
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*.py"))
    return sorted(path for path in files if path.parts[0] not in BUILT and not _hidden(path))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _imported(path: Path) -> set[str]:
    """Top-level names that a file imports absolutely."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


PACKAGE = [path for path in _house_files() if path.parts[0] not in BESIDE]
LAYERS = {path.parts[0] for path in PACKAGE if len(path.parts) > 1}


def test_every_folder_with_code_is_a_listed_package() -> None:
    folders = {".".join(("pzc", *path.parent.parts)) for path in PACKAGE}
    assert sorted(SETUPTOOLS["packages"]) == sorted(folders)


def test_every_package_has_an_init_file() -> None:
    missing = {path.parent for path in PACKAGE if not (ROOT / path.parent / "__init__.py").is_file()}
    assert not missing


def test_an_installation_asks_for_no_limited_api_of_the_wheel_which_free_threaded_python_refuses() -> None:
    assert "distutils" not in PROJECT["tool"]


def test_the_root_holds_no_module_of_its_own() -> None:
    assert {path.name for path in ROOT.glob("*.py")} <= {"__init__.py", "__main__.py"}


def test_the_installed_package_holds_every_file() -> None:
    data = {
        Path(*name.split(".")[1:], file)
        for name, files in SETUPTOOLS["package-data"].items()
        for file in files
    }
    installed = Path(pzc.__file__).parent
    missing = [str(path) for path in [*PACKAGE, *sorted(data)] if not (installed / path).is_file()]
    assert not missing


def test_what_is_tested_of_the_wheel_is_there() -> None:
    assert not [path for path in WHEEL if not (ROOT / "tests" / path).is_file()]


def test_the_layer_contracts_hold() -> None:
    command = [Path(sysconfig.get_path("scripts"), "lint-imports"), "--no-logo", "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_files_do_not_import_each_other() -> None:
    assert not circles(graph_of(ROOT, PACKAGE))


def test_a_circle_of_files_is_seen_through_type_checking_and_functions(tmp_path: Path) -> None:
    sources = {
        "a.py": "if TYPE_CHECKING:\n    from .folder import b",
        "folder/__init__.py": "",
        "folder/b.py": "def f():\n    from ..c import name",
        "c.py": "from . import a",
        "apart.py": "from .a import x",
    }
    (tmp_path / "folder").mkdir()
    for name, source in sources.items():
        (tmp_path / name).write_text(source)
    assert circles(graph_of(tmp_path, map(Path, sources))) == [["a.py", "c.py", "folder/b.py"]]


def test_one_rule_says_what_a_forked_child_forgets() -> None:
    asking = [path for path in PACKAGE if "register_at_fork" in (ROOT / path).read_text(encoding="utf-8")]
    assert list(map(str, asking)) == ["transport/tables.py"]


def test_a_file_imports_each_layer_by_its_one_name() -> None:
    """Inside the package by a relative import, beside it through ``pzc``."""
    second_names = {}
    for path in _house_files():
        inside = path.parts[0] in LAYERS
        if names := _imported(ROOT / path) & (LAYERS | ({"pzc"} if inside else set())):
            second_names[str(path)] = names
    assert not second_names


def test_no_file_is_long() -> None:
    lines = {
        str(path): len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in _house_files()
    }
    assert not {path: count for path, count in lines.items() if count > MAX_LINES}


def test_every_public_name_exists_once() -> None:
    assert len(pzc.__all__) == len(set(pzc.__all__))
    assert not [name for name in pzc.__all__ if not hasattr(pzc, name)]


def test_every_public_name_has_a_docstring_of_its_own() -> None:
    bare = []
    for name in pzc.__all__:
        thing = getattr(pzc, name)
        if not callable(thing) and not inspect.ismodule(thing):
            continue  # a constant is described below its definition, where Python does not keep it
        own = vars(thing).get("__doc__") if inspect.isclass(thing) else None
        own = own if isinstance(own, str) else getattr(thing, "__doc__", None)  # it may be made when asked
        if not own or own.startswith(f"{name}("):  # what a dataclass writes by itself
            bare.append(name)
    assert not bare


def test_package_and_changelog_tell_the_same_version(pytestconfig: pytest.Config) -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\d+\.\d+\.\d+)", changelog, re.MULTILINE)
    assert newest
    assert newest[1] == pzc.__version__
    # An editable installation keeps what was told when it was made.
    assert not pytestconfig.getoption("--installed") or importlib.metadata.version("pzc") == pzc.__version__


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)


def test_a_child_process_can_import_the_examples() -> None:
    result = _python(
        "import importlib.util as u; print(u.find_spec('examples.lab').submodule_search_locations[0])"
    )
    assert result.stdout.strip() == str(ROOT / "examples" / "lab"), result.stderr


def test_no_layer_is_importable_under_a_second_name() -> None:
    result = _python(f"import importlib.util as u; print([n for n in {sorted(LAYERS)!r} if u.find_spec(n)])")
    assert result.stdout.strip() == "[]", result.stderr


def _make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--silent", "--directory", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_make_says_what_to_install_when_java_is_missing(tmp_path: Path) -> None:
    result = _make("java", JAVA_HOME=str(tmp_path))
    assert result.returncode != 0
    assert "apt-get install openjdk-17-jre-headless" in result.stderr


@pytest.mark.parametrize(
    ("version", "status"), [("1.8.0_392", 2), ("11.0.21", 2), ("17", 0), ("17.0.9", 0), ("21.0.1", 0)]
)
def test_make_accepts_java_from_17_on(tmp_path: Path, version: str, status: int) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2023-10-17' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    assert _make("java", JAVA_HOME=str(tmp_path)).returncode == status


def test_make_says_what_to_install_when_python_is_missing() -> None:
    result = _make("python", "PYTHON=no-such-python")
    assert result.returncode != 0
    assert "apt-get install python3 python3-venv" in result.stderr


LEAKS = """
import os, socket, subprocess, sys, threading
import pytest

KEPT = []

def test_thread():
    stop = threading.Event()
    KEPT.append(stop)
    threading.Thread(target=stop.wait, name="forgotten", daemon=True).start()

def test_socket():
    KEPT.append(socket.socket())

def test_pipe():
    KEPT.append(os.pipe())

def test_memory():
    KEPT.append(os.memfd_create("forgotten"))

def test_child():
    KEPT.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

@pytest.fixture(scope="module")
def pipe():
    KEPT.append(os.pipe())

def test_fixture_of_a_module(pipe):
    KEPT[0].set()
"""

INNOCENT = """
import os, socket, threading
import pytest
import zmq

KEPT = []

class Cycle:
    def __init__(self):
        self.me, self.end = self, os.open("/dev/zero", os.O_RDONLY)
    def __del__(self):
        os.close(self.end)

@pytest.fixture(scope="module")
def served():
    with socket.socket() as listener:
        yield listener

def test_thread_that_needs_a_moment():
    threading.Timer(0.1, int).start()

def test_garbage():
    Cycle()

def test_zero_copy(served):
    with zmq.Context() as context, context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as two:
        one.bind("inproc://pair")
        two.connect("inproc://pair")
        one.send(bytes(1_000_000), copy=False)
        assert len(two.recv()) == 1_000_000

@pytest.mark.allow_leaks("stands for a JVM")
def test_machinery():
    KEPT.append(os.pipe())
"""


def _run(pytester: pytest.Pytester, code: str) -> pytest.RunResult:
    """Run ``code`` as a test module under this suite's conftest, in a process of its own."""
    pytester.makepyfile(code)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-o", "leak_wait=0.5"]
    markers = "markers=allow_leaks"
    return pytester.runpytest_subprocess(*options, "-o", markers)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are listed only on Linux")
def test_what_a_test_leaves_behind_is_an_error_that_names_it(pytester: pytest.Pytester) -> None:
    result = _run(pytester, LEAKS)
    result.assert_outcomes(passed=6, errors=6)
    result.stdout.fnmatch_lines_random(
        [
            "*1 x thread 'forgotten' (daemon) at",
            "*, in wait",
            "*1 x file descriptor of socket:*",
            "*2 x file descriptor of pipe:*",
            "*1 x file descriptor of /memfd:forgotten (deleted)",
            "*1 x child process * (*): *input()",
            "test_*.py left behind:",
        ]
    )


def test_what_goes_away_by_itself_is_no_leak(pytester: pytest.Pytester) -> None:
    _run(pytester, INNOCENT).assert_outcomes(passed=4)


def test_an_exemption_from_the_leak_check_needs_a_reason(pytester: pytest.Pytester) -> None:
    result = _run(pytester, "import pytest\n@pytest.mark.allow_leaks\ndef test_silent(): pass\n")
    result.assert_outcomes(passed=1, errors=1)


def test_a_test_sees_no_settings_of_its_caller(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PZC_KEY", "from the caller")
    code = "import os\ndef test_it(): assert {k for k in os.environ if k[:4] == 'PZC_'} == NAMES"
    names = "{'PZC_COMPILED', 'PZC_IP', 'PZC_DISCOVERY_PORT'}"
    _run(pytester, code.replace("NAMES", names)).assert_outcomes(passed=1)
