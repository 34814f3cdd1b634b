"""An embedded Spark session with the settings that suit one machine.

Measured for small data on two cores: as many shuffle partitions as cores and no adaptive
planning; checkpoints by renames that start no programs; the in-memory catalog keeps Hive out. Everything
binds to loopback.

On a cluster, Spark's own defaults stay, and those of ``spark-defaults.conf``; only what does not depend on
the machine is set, and the address at which the workers reach this process.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...protocol.errors import JournalError, MissingRequirement
from .. import missing
from .cluster import driver_address, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_WANTED = 17
TASK_TRIES = 4
"""How often a task is tried, as Spark does it on a cluster."""

MOMENT = 1.0
"""Seconds: the connections to a process that is killed break sooner than it is gone."""

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

_INSTALL_JAVA = (
    "Spark needs Java 17 or newer. Debian and Ubuntu: sudo apt install openjdk-17-jre-headless; "
    "Fedora: sudo dnf install java-21-openjdk-headless; macOS: brew install openjdk@17; "
    "Windows: winget install EclipseAdoptium.Temurin.17.JRE. "
    "A Java elsewhere is found through JAVA_HOME."
)


def require_java() -> int:
    """Major version of the Java that Spark will run on: ``JAVA_HOME``, else the one on ``PATH``.

    Raises:
        MissingRequirement: when there is none or it is older than 17; says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if program is None:
        raise MissingRequirement(
            f"no Java found in {'JAVA_HOME ' + home if home else 'PATH'}. {_INSTALL_JAVA}"
        )
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as exc:
        raise MissingRequirement(f"{program} does not run: {exc}. {_INSTALL_JAVA}") from exc
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    if found is None or int(found[1]) < JAVA_WANTED:
        raise MissingRequirement(
            f"{program} is {answer.splitlines()[0] if answer else 'unknown'}. {_INSTALL_JAVA}"
        )
    return int(found[1])


def require_pyspark() -> str:
    """Version of the installed pyspark.

    Raises:
        MissingRequirement: when it is not installed; says how to install it.
    """
    try:
        import pyspark
    except ImportError as exc:
        raise missing("pyspark") from exc
    return str(pyspark.__version__)


def spark_session(
    app_name: str = "pzc",
    master: str = "local[*]",
    *,
    driver_memory: str = "2g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or join the session that this process already has.

    For a local master, sets ``PYSPARK_PYTHON`` to this interpreter and ``SPARK_LOCAL_IP`` to
    loopback. Local workers import from the same environment as this process; what is importable
    here only through ``sys.path`` changes must be on ``PYTHONPATH``. For a cluster, ``PYSPARK_PYTHON`` is the
    path of the interpreter on the nodes, default the same as here; see `cluster.ready_workers`.

    Args:
        app_name: shown by Spark.
        master: ``local[*]`` (all cores), ``local[N]``, or a cluster's ``spark://…``.
        driver_memory: Java heap of this process's part.
        settings: further Spark settings; they win.

    Raises:
        MissingRequirement: when Java 17 or pyspark is missing, or no master answers; says what to do.
        ConfigError: for a master that cannot be one.
        JournalError: when it does not start, or ends meanwhile.
    """
    require_pyspark()
    require_java()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    wanted = _common(driver_memory)
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        wanted |= _local(master)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        wanted |= _cluster(master)
    builder = SparkSession.builder.master(retrying(master)).appName(app_name)
    for name, value in (wanted | dict(settings or {})).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (OSError, Py4JError, PySparkRuntimeError) as exc:
        raise JournalError(f"Spark did not start: {exc}") from exc


def running() -> bool:
    """Whether this process has a session, which `spark_session` joins.

    Raises:
        MissingRequirement: when pyspark is missing.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def ended(spark: SparkSession, within: float = 0.0) -> int | None:
    """Exit status of a session's Java process; None while it lives, or when somebody else has started it.

    Args:
        spark: the session.
        within: seconds for it to end.
    """
    process: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    if process is None:
        return None
    try:
        return int(process.wait(within))
    except subprocess.TimeoutExpired:
        return None


def stop(spark: SparkSession) -> None:
    """Stop a session; of one whose Java process is gone, nothing is left to stop."""
    from py4j.protocol import Py4JNetworkError

    try:
        spark.stop()
    except (OSError, Py4JNetworkError):
        if ended(spark, MOMENT) is None:
            raise


def retrying(master: str) -> str:
    """A local master gives up at the first task that fails, and a killed Python process is one."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{found[1] or 1},{TASK_TRIES}]" if found else master


def cores(master: str) -> int:
    """Cores of a local master."""
    count = re.fullmatch(r"local(?:\[(\d+)(?:,.*)?\])?", master)
    if count:
        return int(count[1] or 1)
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _common(driver_memory: str) -> dict[str, str]:
    return {
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        "spark.sql.session.timeZone": "UTC",
        # Spark's own default is INT96, nanoseconds without a zone, which other readers take for local time.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "pzc-warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _cluster(master: str) -> dict[str, str]:
    """Without these, Spark binds to the address of this machine's name, which often is loopback."""
    address = driver_address(master)
    return {} if address is None else {"spark.driver.host": address, "spark.driver.bindAddress": address}


def _local(master: str) -> dict[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(cores(master)),
        "spark.default.parallelism": str(cores(master)),
        "spark.sql.adaptive.enabled": "false",
    }
