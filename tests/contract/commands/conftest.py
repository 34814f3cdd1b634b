"""Consoles and servers; every process ends with the test or module that started it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.rigs.console import KEY, MODULE, Console
from tests.contract.rigs.processes import Forge


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory that holds the module ``bench``."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "bench.py").write_text(MODULE, encoding="utf-8")
    return folder


@pytest.fixture
def console(folder: Path, forge: Forge) -> Iterator[Console]:
    console = Console(folder, forge)
    yield console
    console.close()


def _bench(folder: Path, forge: Forge, **environment: str) -> Iterator[Console]:
    console = Console(folder, forge)
    console.environment.update(environment)
    try:
        _, console.endpoint = console.serve("--name", "psu")
        console.environment["PZC_PEERS"] = f"psu={console.endpoint}"
        yield console
    finally:
        console.close()


@pytest.fixture(scope="module")
def bench(folder: Path, forge: Forge) -> Iterator[Console]:
    """A console that knows one running server as ``psu``; both have the same key."""
    yield from _bench(folder, forge, PZC_KEY=KEY)


@pytest.fixture(scope="module")
def keyless(folder: Path, forge: Forge) -> Iterator[Console]:
    """As ``bench``, without a key."""
    yield from _bench(folder, forge)


@pytest.fixture(params=["signed", "unsigned"])
def either(request: pytest.FixtureRequest, bench: Console, keyless: Console) -> Console:
    """First ``bench``, then ``keyless``."""
    return bench if request.param == "signed" else keyless
