"""Networks made of namespaces; where they cannot be made, these tests skip loudly, or fail if `REQUIRED`.

The environment variable ``NETWORK_TESTS=required`` makes them fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.rigs.namespaces import Lab, obstacle
from tests.contract.rigs.processes import Forge
from tests.contract.rigs.residents import Residents

REQUIRED = os.environ.get("NETWORK_TESTS") == "required"

FOLDER = Path(__file__).parent

_obstacle = pytest.StashKey[str]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them belong to `make test-all`."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reason = config.stash.get(_obstacle, "")
    if reason:
        terminalreporter.section("THE TESTS ON NETWORKS DID NOT RUN", red=True, bold=True)
        terminalreporter.line(f"No network namespaces can be made here: {reason}")


@pytest.fixture(scope="session", autouse=True)
def networks(request: pytest.FixtureRequest) -> None:
    """Remove what killed runs have left, and find out whether networks can be made."""
    reason = request.config.stash[_obstacle] = obstacle()
    if reason:
        (pytest.fail if REQUIRED else pytest.skip)(f"no network namespaces can be made here: {reason}")


@pytest.fixture
def residents(networks: None, forge: Forge) -> Iterator[Residents]:
    with Residents(forge) as made:
        yield made


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made
