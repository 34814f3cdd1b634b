"""Broadcast notifications that are too old."""

from __future__ import annotations

import time

import pytest

from pzc import Agent, Gap
from pzc.protocol.ids import Stamp

from tests.contract.rigs import altered
from tests.contract.rigs.altered import instead
from tests.contract.rigs.peers import TIMEOUT, Elsewhere, Forwarder, Frames

publisher = altered.publisher

pytestmark = pytest.mark.usefixtures("broadcast")


def stamped(agent: Agent, content: object, number: int, age: float) -> Frames:
    """A notification of topic ``t``, as an agent would have sent it so many seconds ago."""
    protocol = agent.protocol
    stamp = Stamp(int((time.time() - age) * 1000), protocol.counter()(), protocol.epoch)
    made = protocol.codec.encode(agent.agent_id, "t", content, stamp=stamp, sequence=number)
    return [bytes(frame) for frame in made]


def test_what_is_old_is_refused_and_a_gap(publisher: Elsewhere, reader: Agent) -> None:
    late = lambda _: [stamped(publisher, "old", 5, 60.0)]  # noqa: E731
    with Forwarder(publisher.pub_endpoint, instead(5, late)) as forwarder:
        publisher.advertised = forwarder.endpoint
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        for number in range(1, 7):
            publisher.publish("t", number)
        assert [subscription.recv(TIMEOUT).content for _ in range(5)] == [1, 2, 3, 4, 6]
        assert subscription.gaps == [Gap(publisher.epoch, 5, 5)]
        assert reader.counters["refused_StaleMessage"] == 1
        subscription.close()
