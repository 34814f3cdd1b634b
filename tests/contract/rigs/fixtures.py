"""Fixtures of all tests: one fork server for the whole run, and the worker processes of a test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pzc import Agent, Protocol
from pzc.testing import Timings

from tests.contract.rigs.peers import KEY, QUICK
from tests.contract.rigs.processes import Forge, Workers, forging


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    """A process that has imported the package and forks workers."""
    with forging() as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def _forge_before_all(request: pytest.FixtureRequest) -> None:
    """Start it before the first module counts what it leaves behind, if any test needs it."""
    if any(map(_needs_forge, request.session.items)):
        request.getfixturevalue("forge")


def _needs_forge(item: pytest.Item) -> bool:
    return "forge" in getattr(item, "fixturenames", ()) or hasattr(getattr(item, "module", None), "Child")


@pytest.fixture
def workers(forge: Forge) -> Iterator[Workers]:
    """Starts processes, and kills them all at the end of the test."""
    with Workers(forge) as made:
        yield made


@pytest.fixture
def publisher() -> Iterator[Agent]:
    """An agent with a key."""
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


@pytest.fixture
def reader() -> Iterator[Agent]:
    """Another agent with that key."""
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


@pytest.fixture
def agents() -> Iterator[tuple[Agent, Agent]]:
    """A publisher and a reader without keys, that no discovery finds."""
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        yield publisher, reader


@pytest.fixture
def broadcast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are made from now on take no links for `drop` and `latest` unless they are told to."""
    monkeypatch.setenv("PZC_TRANSPORT", "tcp")


@pytest.fixture
def pair(publisher: Agent, reader: Agent) -> tuple[Agent, Agent]:
    return publisher, reader


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def quick() -> Iterator[None]:
    """Who is dead is known soon, to whatever begins in this process during the test."""
    with Timings(**QUICK):
        yield
