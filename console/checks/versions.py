"""Versions of what this package stands on."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import zmq

from ...protocol.lazily import Lazily
from ...protocol.version import VERSION
from ...transport.compiled import LANE, WHICH
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
    yield ok("lane", WHICH, compiled=LANE is not None)
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
