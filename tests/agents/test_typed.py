"""The type of a topic's messages, said only when readers are there already."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc import Agent
from pzc.agents.notifications.merged import Merged

from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import Inbox


@pytest.fixture
def reader() -> Iterator[Agent]:
    with Agent() as agent:
        yield agent


def test_of_a_pattern_only_the_publisher_of_another_type_is_left_out(reader: Agent) -> None:
    with Agent(name="cam1") as one, Agent(name="cam2") as two:
        inbox = Inbox()
        subscription = reader.subscribe("cam*", "frame", inbox, type="Picture")
        assert isinstance(subscription, Merged)
        one.advertise("frame", type="Sound")
        two.advertise("frame", type="Picture")
        eventually(lambda: len(subscription.sources) == 1)
        two.publish("frame", 1)
        assert inbox.contents(1) == [1]
        assert not subscription.closed
