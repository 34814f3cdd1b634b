"""Notifications from end to end: real sockets, and real processes where one is named."""

from __future__ import annotations

import pytest

from pzc import Agent, Protocol

from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    Elsewhere,
    Forwarder,
)


@pytest.mark.usefixtures("beside_originals")
def test_a_replayed_notification_of_the_original_dialect_is_refused_too() -> None:
    original = Protocol(KEY, dialect="PZC00", accept=["PZC00"])
    with (
        Elsewhere(protocol=original) as publisher,
        Agent(protocol=Protocol(KEY)) as reader,
        Forwarder(publisher.pub_endpoint, lambda n, frames: [frames] * 3) as forwarder,
    ):
        publisher.advertised = forwarder.endpoint
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
        for number in range(20):
            publisher.publish("t", number)
        assert [subscription.recv(TIMEOUT).content for _ in range(20)] == list(range(20))
        publisher.publish("t", "end")
        assert subscription.recv(TIMEOUT).content == "end"
        assert reader.counters["refused_ReplayedMessage"] >= 40
        subscription.close()
