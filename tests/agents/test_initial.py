"""``subscribe(initial=True)``: what the publisher kept comes first, once, and nothing is lost or repeated."""

from __future__ import annotations

import pytest

from pzc import (
    Agent,
    PolicyRefused,
    Refused,
)
from pzc.protocol.bundle import Bundle

from tests.contract.rigs import initial
from tests.contract.rigs.initial import seen
from tests.contract.rigs.peers import TIMEOUT

agents = initial.agents


@pytest.mark.parametrize("scope", ["process", "host"])
def test_what_does_not_leave_its_scope_is_told_to_nobody_outside(
    agents: tuple[Agent, Agent], scope: str
) -> None:
    publisher, reader = agents
    publisher.advertise("secret", scope=scope, keep_last=True)
    publisher.publish("secret", 1)
    with pytest.raises(PolicyRefused):
        reader.exchange(
            publisher.rep_endpoint, {"pzc": "kept", "topic": "secret", "key": None}, TIMEOUT, transport="tcp"
        )
    reply = reader.exchange(
        publisher.rep_endpoint, {"pzc": "kept", "topic": "*", "key": None}, TIMEOUT, transport="tcp"
    )
    assert isinstance(reply.content, Bundle)
    assert (reply.content.items, reply.content.lasts) == ([], [])
    way = "inproc" if scope == "process" else "unix"
    subscription = reader.subscribe(publisher.rep_endpoint, "secret", transport=way, initial=True)
    assert seen(subscription.recv(TIMEOUT)) == (1, 1, True)


def test_a_publisher_that_does_not_know_the_question_refuses_it(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    del publisher._control.words["kept"]
    with pytest.raises(Refused, match="keeps no last"):
        reader.subscribe(publisher.rep_endpoint, "t", initial=True, transport="tcp")
    assert reader.statistics()["subscriptions"] == []
