"""Consoles and servers; every process ends with the test or module that started it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.command import MODULE, Console


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory that holds the module ``bench``."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "bench.py").write_text(MODULE, encoding="utf-8")
    return folder


@pytest.fixture
def pzc(folder: Path) -> Iterator[Console]:
    console = Console(folder)
    yield console
    console.close()


def _bench(folder: Path, **environment: str) -> Iterator[Console]:
    console = Console(folder)
    console.environment.update(environment)
    try:
        _, endpoint = console.serve("--name", "psu")
        console.environment["PZC_PEERS"] = f"psu={endpoint}"
        yield console
    finally:
        console.close()


@pytest.fixture(scope="module")
def bench(folder: Path) -> Iterator[Console]:
    """A console that knows one running server as ``psu``; both have the same key."""
    yield from _bench(folder, PZC_KEY="correct horse battery staple")


@pytest.fixture(scope="module")
def keyless(folder: Path) -> Iterator[Console]:
    """As ``bench``, without a key."""
    yield from _bench(folder)


@pytest.fixture(params=["signed", "unsigned"])
def either(request: pytest.FixtureRequest, bench: Console, keyless: Console) -> Console:
    """First ``bench``, then ``keyless``."""
    return bench if request.param == "signed" else keyless
