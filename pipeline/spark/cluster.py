"""What a cluster needs before a job runs on it.

::

    driver_address   where the workers reach this process: the address from which it reaches the master;
                     a port where nobody listens is said at once, and not after Spark's minute
    ready_workers    workers there are, and every one of them can import this package in this version

Workers run the verifier and the decoder, so they need the package. Either it is installed on every node, or a
wheel of it is sent to them; what it depends on holds compiled code and has to be on the nodes in any case.
"""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ConfigError, MissingRequirement
from ...protocol.version import VERSION

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

CONNECT_TIMEOUT = 5.0
"""Seconds for each address of a master."""

WORKERS_TIMEOUT = 60.0
"""Seconds until the first worker must have come."""

_WHEEL = re.compile(r"pzc-(?P<version>[^-]+)-.+\.whl")
_ROUNDS = 3
_TASKS_PER_CORE = 4
_LOOK = 0.1

_INSTALL = (
    "install pzc[pipeline] on every node, or give --wheel for pzc itself; its dependencies have to be there. "
    "PYSPARK_PYTHON names the interpreter of the nodes"
)


class Answer(NamedTuple):
    """What one worker says of itself; ``problem`` is empty when it can work."""

    host: str
    process: int
    version: str
    problem: str


def is_local(master: str) -> bool:
    """Whether a master runs everything in this machine's one JVM."""
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is not None


def driver_address(master: str) -> str | None:
    """This machine's address on the way to a standalone master; None for other kinds of masters.

    Raises:
        ConfigError: for ``spark://`` without a host and port.
        MissingRequirement: when nobody listens there.
    """
    if not master.startswith("spark://"):
        return None
    problems: list[str] = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(f"master {master!r} is not spark://HOST:PORT")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT) as probe:
                return str(probe.getsockname()[0])
        except OSError as exc:
            problems.append(f"{place}: {exc}")
    raise MissingRequirement(f"no Spark master answers at {', '.join(problems)}")


def ready_workers(spark: SparkSession, wheel: str | Path | None) -> list[Answer]:
    """See to it that the workers of a session can run this package's jobs; nothing to do for a local one.

    Args:
        spark: the session.
        wheel: of this package in this version, sent to all workers, also those that come later; it wins over
            what is installed there.

    Returns:
        What each worker said.

    Raises:
        ConfigError: for a file that is no wheel of this version.
        MissingRequirement: when no worker comes, or one cannot run the package; says which, and what to do.
    """
    context = spark.sparkContext
    if is_local(context.master or "local"):
        return []
    if wheel is not None:
        _ship(context, Path(wheel))
    _wait_for_workers(context)
    answers = _ask(context)
    problems = [f"{answer.host}: {problem}" for answer in answers if (problem := judge(answer))]
    if problems:
        raise MissingRequirement(f"a worker cannot run the pipeline: {'; '.join(problems)}. {_INSTALL}")
    return answers


def judge(answer: Answer) -> str:
    """Why a worker cannot be used; empty when it can."""
    if answer.problem:
        return answer.problem
    return "" if answer.version == VERSION else f"it has pzc {answer.version}, and this is {VERSION}"


def check_wheel(wheel: Path) -> None:
    """Refuse what is no wheel of this package in this version.

    Raises:
        ConfigError: says what it is instead.
    """
    found = _WHEEL.fullmatch(wheel.name)
    if found is None or not wheel.is_file():
        raise ConfigError(f"{wheel} is no wheel of pzc, such as pzc-{VERSION}-py3-none-any.whl")
    if found["version"] != VERSION:
        raise ConfigError(f"{wheel} is pzc {found['version']}, and this is {VERSION}")


def _ship(context: SparkContext, wheel: Path) -> None:
    from pyspark import SparkFiles

    check_wheel(wheel)
    # Spark serves the file itself for as long as the session lasts, and removes this folder at its end.
    folder = tempfile.mkdtemp(dir=SparkFiles.getRootDirectory())
    # It puts an archive on the workers' path by the end of its name, and does not know wheels.
    archive = shutil.copyfile(wheel, Path(folder) / f"{wheel.stem}.zip")
    context.addPyFile(str(archive))


def _wait_for_workers(context: SparkContext) -> None:
    deadline = time.monotonic() + WORKERS_TIMEOUT
    pause = threading.Event()
    while not _workers(context):
        if time.monotonic() > deadline:
            raise MissingRequirement(
                f"{context.master} gave no worker within {WORKERS_TIMEOUT:g} s: none is connected, all "
                "are busy with other applications, or none has the memory that spark.executor.memory asks for"
            )
        pause.wait(_LOOK)


def _workers(context: SparkContext) -> int:
    """Executors that are there; Spark lists the driver among them."""
    java: Any = context._jsc
    return len(java.sc().statusTracker().getExecutorInfos()) - 1


def _ask(context: SparkContext) -> list[Answer]:
    """An answer of every worker, as far as Spark gives each of them a task."""
    answers: dict[tuple[str, int], Answer] = {}
    for _ in range(_ROUNDS):
        tasks = max(1, context.defaultParallelism) * _TASKS_PER_CORE
        try:
            told = context.parallelize(range(tasks), tasks).mapPartitions(_question()).collect()
        except Exception as exc:  # Py4J's, or Spark's own
            raise MissingRequirement(f"a worker's Python does not run: {_reason(exc)}. {_INSTALL}") from exc
        answers |= {(host, process): Answer(host, process, *rest) for host, process, *rest in told}
        if len(answers) >= _workers(context):
            break
    return list(answers.values())


def _question() -> Callable[[Iterable[int]], Iterator[tuple[str, int, str, str]]]:
    """What a worker runs; made inside a function, so that it is sent as code and not by its module's name."""

    def answer(_: Iterable[int]) -> Iterator[tuple[str, int, str, str]]:
        import importlib
        import os
        import socket

        version = problem = ""
        try:
            version = importlib.import_module("pzc.protocol.version").VERSION
            importlib.import_module("pzc.pipeline.decoding.decode")
        except Exception as exc:  # whatever is missing there is the answer
            problem = f"{type(exc).__name__}: {exc}"
        yield socket.gethostname(), os.getppid(), version, problem

    return answer


def _reason(exc: Exception) -> str:
    """The line of Spark's many that tells what happened."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    marks = ("PYTHON_VERSION_MISMATCH", "Cannot run program", "No module named", "Error:", "Exception:")
    for mark in marks:
        for line in lines:
            if mark in line:
                return line[:500]
    return lines[0][:500] if lines else type(exc).__name__
