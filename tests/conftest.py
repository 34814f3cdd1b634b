"""What every test gets: examples that can be imported, settings of its own, and a watch for leaks."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import re
import shutil
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Generator, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zmq
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent
IMPORTABLE = ("benchmarks", "examples", "tests")
WHEEL = frozenset({
    "test_house.py",
    "contract/calls/test_aio.py",
    "contract/calls/test_process.py",
    "contract/calls/test_server.py",
    "contract/commands/test_keys.py",
    "contract/commands/test_ls.py",
    "contract/commands/test_main.py",
    "contract/commands/test_serve.py",
    "contract/commands/test_stubs.py",
    "contract/demo/test_demo.py",
    "contract/notifications/test_mail.py",
    "contract/notifications/test_notifications.py",
    "contract/pipeline/test_commands.py",
    "pipeline/test_plots.py",
    "pipeline/test_replay.py",
    "pipeline/test_session.py",
})  # fmt: skip
"""Files whose tests are run against the wheel as well: they start every kind of process and read every kind of
file that comes with the package. What the others prove of a checkout holds for the same files elsewhere."""

LANES = {"": ("1", "1"), "plain": ("0", "0"), "plain-children": ("1", "0"), "plain-parents": ("0", "1")}
"""``PZC_COMPILED`` here and in the processes below, by what the variable ``TESTS_LANES`` says."""

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Lets a JVM start with a third less work; none of the tests' lives long enough to pay for more."""


def free_port() -> int:
    """A UDP port of loopback that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


DISCOVERY_PORT = free_port()
"""Of this run and its child processes: agents of another run on this machine are not found."""

# A shared machine may stop a test at any moment, so an example has no deadline.
settings.register_profile("pzc", deadline=None)
settings.register_profile("pzc-ci", deadline=None, derandomize=True, database=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--installed", action="store_true", help="refuse to test a pzc outside site-packages")
    parser.addoption(
        "--tier", choices=("quick", "rest", "wheel"), help="how many examples properties are tried with"
    )
    parser.addoption("--outcomes", type=Path, help="file that tells what became of every test")
    parser.addini("leak_wait", default="5", help="seconds that a test's leftovers may take to go away")


def pytest_configure(config: pytest.Config) -> None:
    _clear_settings()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_JAVA)
    _make_importable(config)
    _choose_lane()
    config.pluginmanager.import_plugin("tests.leaks")
    config.pluginmanager.import_plugin("tests.contract.rigs.fixtures")
    _choose_effort(config.getoption("--tier") in ("quick", "wheel"))
    path = config.getoption("--outcomes")
    if path is not None and not _distributed(config):
        from tests.outcomes import Outcomes

        config.pluginmanager.register(Outcomes(Path(path)))
    place = _place_of_pzc()
    if config.getoption("--installed") and Path(sysconfig.get_path("purelib")) not in place.parents:
        raise pytest.UsageError(f"--installed: pzc was imported from {place}, not from site-packages")


def _distributed(config: pytest.Config) -> bool:
    """True in a process that runs tests for another one, which collects what became of them."""
    return hasattr(config, "workerinput")


def _choose_effort(quick: bool) -> None:
    from tests.effort import QUICK, many

    if quick:
        os.environ[QUICK] = "1"
    profile = "pzc-ci" if os.environ.get("CI") else "pzc"
    settings.register_profile("tests", settings.get_profile(profile), max_examples=many(100))
    settings.load_profile("tests")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Tests of one file stay in one process, and so do those of one group."""
    from tests.scheduling import Scheduling

    return Scheduling(config, log)


def pytest_report_header() -> str:
    return f"pzc: {_place_of_pzc()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a JVM where there is no Java; mark what is tested once."""
    wheel = {ROOT / "tests" / each for each in WHEEL}
    without = set(os.environ.get("TESTS_WITHOUT", "").split(","))
    if "posix" in without:  # nothing of these works then
        without |= {"memfd", "pidfd", "unix"}
    for item in items:
        needed = {name for mark in item.iter_markers("needs") for name in mark.args}
        needed |= {"unix"} & set(re.findall(r"\w+", item.name.partition("[")[2]))  # of its parameters
        if lacking := without & needed:
            item.add_marker(pytest.mark.skip(reason=f"it is about {', '.join(sorted(lacking))}"))
        if item.path not in wheel:
            item.add_marker(pytest.mark.once)
    if not any(item.get_closest_marker("java") for item in items):
        return
    from pzc.pipeline.spark.session import require_java
    from pzc.protocol.errors import MissingRequirement

    try:
        require_java()
    except MissingRequirement as exc:
        for item in items:
            if item.get_closest_marker("java"):
                item.add_marker(pytest.mark.skip(reason=str(exc)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that asks by name for the Unix sockets that ``TESTS_WITHOUT`` took away."""
    report = yield
    error = None if call.excinfo is None else call.excinfo.value
    if report.failed and os.environ.get("TESTS_WITHOUT") and "no Unix sockets that tell" in repr(error):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, "Skipped: it asks for transport='unix'")
    return report


def _place_of_pzc() -> Path:
    spec = importlib.util.find_spec("pzc")
    if spec is None or spec.origin is None:
        raise pytest.UsageError(
            "pzc is not installed here; `make test` does that, or: pip install --editable ."
        )
    return Path(spec.origin)


def _make_importable(config: pytest.Config) -> None:
    """Make three folders importable here and in child processes, and nothing else of the root.

    With the root itself on the path, every layer would be importable under a second name.
    """
    shelf = tempfile.mkdtemp(prefix="pzc-tests-")
    config.add_cleanup(lambda: shutil.rmtree(shelf, ignore_errors=True))
    for name in IMPORTABLE:
        package = Path(shelf, name, "__init__.py")
        package.parent.mkdir()
        package.write_text(f"__path__ = [{str(ROOT / name)!r}]\n", encoding="utf-8")
    sys.path.insert(0, shelf)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [shelf, os.environ.get("PYTHONPATH")]))
    # So pytest calls the root, which is a package, in a directory whose name is no identifier, and imports it again.
    sys.modules.setdefault("__init__", importlib.import_module("pzc"))


def _clear_settings() -> None:
    for name in [name for name in os.environ if name.startswith("PZC_")]:
        del os.environ[name]
    os.environ["PZC_IP"] = "127.0.0.1"
    os.environ["PZC_DISCOVERY_PORT"] = str(DISCOVERY_PORT)
    os.environ["PZC_COMPILED"] = LANES[os.environ.get("TESTS_LANES", "")][1]


def _choose_lane() -> None:
    """A process chooses its lane when it is imported."""
    os.environ["PZC_COMPILED"] = LANES[os.environ.get("TESTS_LANES", "")][0]
    importlib.import_module("pzc.transport.compiled")
    importlib.import_module("pzc.transport.stream")
    _clear_settings()


@pytest.fixture(autouse=True)
def _own_settings() -> Iterator[None]:
    """No ``PZC_…`` variable and no limit of the caller or of an earlier test; loopback only."""
    from pzc.protocol import limits

    _clear_settings()
    yield
    _clear_settings()
    limits.use(limits.Limits())


@pytest.fixture
def timings() -> Iterator[Callable[..., None]]:
    """Other times and limits from here to the end of a test: ``timings(silence=0.2)``."""
    from pzc.testing import Timings

    changes: dict[str, float] = {}
    with contextlib.ExitStack() as stack:

        def use(**more: float) -> None:
            changes.update(more)
            stack.enter_context(Timings(**changes))

        yield use


@pytest.fixture
def beside_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents with a key, here and in child processes, serve originals as well."""
    monkeypatch.setenv("PZC_ACCEPT", "PZC01,PZC00")


@pytest.fixture(scope="session", autouse=True)
def _process_wide_machinery() -> None:
    """Start what a process starts once and keeps, so that no test is blamed for it."""
    resource_tracker.ensure_running()
    zmq.Frame(b"starts the thread that frees zero-copy frames", copy=False)
    gc.collect()
    gc.freeze()  # a look of the collector at everything that was imported and collected stops all threads


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for the whole run: a start takes seconds."""
    from pzc.pipeline.spark.session import spark_session

    session = spark_session("pzc-tests", "local[2]")
    yield session
    session.stop()
