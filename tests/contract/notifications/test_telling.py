from __future__ import annotations

import math

import pytest

from pzc import Agent, ConfigError

from tests.contract.rigs.pairs import pair
from tests.contract.rigs.peers import TIMEOUT


def test_an_agent_publishes_its_statistics_again_and_again() -> None:
    with pair() as (publisher, reader):
        publisher.publish("t", 1)
        subscription = reader.subscribe(publisher.rep_endpoint, "statistics")
        publisher.publish_statistics(0.05)
        for _ in range(3):
            told = subscription.recv(TIMEOUT).content
            assert told["topics"]["t"]["published"] == 1


def test_a_new_pace_replaces_the_one_before() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "*")
        publisher.publish_statistics(86_400, "slow")
        publisher.publish_statistics(0.05, "quick")
        topics = [subscription.recv(TIMEOUT).topic for _ in range(4)]
        assert topics == ["slow", "quick", "quick", "quick"]


@pytest.mark.parametrize("every", [0, -1, math.nan, math.inf])
def test_a_pace_that_cannot_be_kept_is_refused(every: float) -> None:
    with Agent() as agent, pytest.raises(ConfigError, match="every="):
        agent.publish_statistics(every)
