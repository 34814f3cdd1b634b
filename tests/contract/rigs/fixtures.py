"""Fixtures of all tests: one fork server for the whole run, and the worker processes of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.rigs.processes import Forge, Workers


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    """A process that has imported the package and forks workers."""
    made = Forge()
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _forge_before_all(request: pytest.FixtureRequest) -> None:
    """Start it before the first module counts what it leaves behind, if any test needs it."""
    if any("forge" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("forge")


@pytest.fixture
def workers(forge: Forge) -> Iterator[Workers]:
    """Starts processes, and kills them all at the end of the test."""
    with Workers(forge) as made:
        yield made


@pytest.fixture(scope="module")
def crew(forge: Forge) -> Iterator[Workers]:
    """Starts processes that all tests of a module share."""
    with Workers(forge) as made:
        yield made
