"""What this package stands on: versions of others; Java and Spark, which only the pipeline needs."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import zmq

from ...pipeline.spark.session import require_java, require_pyspark, spark_session
from ...protocol.errors import MissingRequirement
from ...protocol.lazily import Lazily
from ...protocol.version import VERSION
from ...transport.stream import WHICH, Stream
from .finding import Finding, Subject, failed, ok, skipped, warning

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = Lazily("importlib.metadata")

NEEDED = ("pyzmq", "cryptography", "msgspec", "numpy")
OPTIONAL = ("pyarrow", "pandas", "pyspark")

_BOUND = re.compile(r"(>=|<)\s*([\d.]+)")


def check_versions(subject: Subject) -> Iterator[Finding]:
    """Python, this package, and the packages that it needs or can use."""
    del subject
    python = platform.python_version()
    yield ok("python", f"{python} at {sys.executable}", version=python)
    yield ok("pzc", VERSION, version=VERSION)
    wanted = bounds()
    for package in NEEDED:
        yield _package(package, wanted.get(package, ""), needed=True)
    yield ok("libzmq", zmq.zmq_version(), version=zmq.zmq_version())
    yield ok("stream", WHICH, compiled=Stream.__name__ == "Stream")
    for package in OPTIONAL:
        yield _package(package, wanted.get(package, ""), needed=False)


def bounds() -> dict[str, str]:
    """What this package asks of others, such as ``>=4.3,<4.4``, by name; empty when it is not installed."""
    try:
        lines = metadata.requires("pzc") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, str] = {}
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        if name is not None:
            found.setdefault(name[0], line[name.end() :].partition(";")[0].strip())
    return found


def satisfies(version: str, wanted: str) -> bool:
    """True when a version keeps to bounds such as ``>=4.3,<4.4``."""
    have = _numbers(version)
    return all((have >= _numbers(bound)) == (sign == ">=") for sign, bound in _BOUND.findall(wanted))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _package(name: str, wanted: str, *, needed: bool) -> Finding:
    bad = failed if needed else warning
    install = f"pip install '{name}{wanted}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        if needed:
            return failed(name, "not installed", install)
        return skipped(name, "not installed; only the pipeline uses it", "pip install 'pzc[pipeline]'")
    if not satisfies(version, wanted):
        return bad(name, f"{version}, but {wanted} is needed", install, version=version)
    return ok(name, version, version=version)


def check_java(subject: Subject) -> Iterator[Finding]:
    """The Java that Spark would run on."""
    bad = failed if subject.spark else warning
    home = os.environ.get("JAVA_HOME")
    where = f"JAVA_HOME {home}" if home else "PATH"
    try:
        yield ok("java", f"{require_java()}, found through {where}", java_home=home)
    except MissingRequirement as exc:
        what, _, todo = str(exc).partition(". ")
        yield bad(
            "java", f"{what}; the pipeline needs it, calls and notifications do not", todo, java_home=home
        )


def check_spark(subject: Subject) -> Iterator[Finding]:
    """Spark can be imported; with ``--spark``, a session starts and counts."""
    try:
        version = require_pyspark()
    except MissingRequirement as exc:
        bad = failed if subject.spark else skipped
        yield bad("spark", str(exc), "pip install 'pzc[pipeline]'")
        return
    if not subject.spark:
        yield ok(
            "spark", f"pyspark {version} can be imported; --spark starts a session as well", version=version
        )
        return
    began = time.monotonic()
    try:
        session = spark_session("pzc-doctor", "local[1]", driver_memory="512m")
        try:
            count = session.range(10).count()
        finally:
            session.stop()
    except Exception as exc:  # Spark's own errors have no common base
        yield failed(
            "spark", f"a session did not start: {type(exc).__name__}: {exc}", "see the text above it"
        )
        return
    seconds = time.monotonic() - began
    yield ok(
        "spark",
        f"pyspark {version}: a session started and counted to {count} in {seconds:.1f} s",
        version=version,
    )
