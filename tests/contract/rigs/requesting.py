"""Requests by hand to an agent, signed and unsigned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc import (
    Agent,
    Protocol,
)

from tests.contract.rigs.calling import (
    KEY,
    TIMEOUT,
    Frames,
    RawPeer,
)

SENDER = "0123456789abcdef" * 2


@pytest.fixture(params=["", KEY], ids=["unsigned", "signed"])
def key(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def agent(key: str) -> Iterator[Agent]:
    with Agent(protocol=Protocol(key)) as made:
        yield made


@pytest.fixture
def peer(agent: Agent) -> Iterator[RawPeer]:
    with RawPeer(agent.rep_endpoint) as made:
        yield made


def request_for(agent: Agent, content: object, key: str = "", **options: Any) -> Frames:
    """A request to an agent as another agent would send it."""
    options = {"receiver": agent.agent_id, **options}
    return [bytes(frame) for frame in Protocol(key).encode(SENDER, "", content, **options)]


def still_answers(agent: Agent, key: str = "") -> None:
    with Agent(protocol=Protocol(key, "json")) as client:
        assert client.request(agent.rep_endpoint, "ping", TIMEOUT) == "pong"
