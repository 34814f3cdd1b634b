"""Publishing with links: one order on both planes, waits that end, and whom `ack_wait` waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, ConfigError, PolicyRefused

from tests.contract.rigs.peers import Inbox


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(name="publisher") as publisher:
        yield publisher


def test_a_topic_that_stays_here_is_not_broadcast(agent: Agent) -> None:
    with Agent() as other:
        inbox = Inbox()
        other.subscribe(agent.rep_endpoint, "*", inbox, transport="tcp")
        agent.advertise("t", scope="host")
        with pytest.raises(PolicyRefused, match="unix"):
            other.subscribe(agent.rep_endpoint, "t", transport="tcp")
        agent.publish("t", 0)
        agent.publish("u", 1)
        assert inbox.next().topic == "u"


@pytest.mark.parametrize(
    "about",
    [
        {"buffers": 0}, {"buffers": "many"}, {"scope": "room"}, {"scope": ["host"]},
        {"ack_wait": -1}, {"ack_wait": "long"}, {"policies": ["letterbox"]},
        {"type": 5},
    ],
)  # fmt: skip
def test_an_argument_that_cannot_be_used_is_told(agent: Agent, about: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        agent.advertise("t", **about)
