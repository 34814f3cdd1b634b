"""Notifications from end to end: real sockets, and real processes where one is named."""

from __future__ import annotations

import queue
from collections.abc import Callable

import pytest

from pzc import Agent, Gap, Protocol, Subscription

from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    Child,
    Forwarder,
    Inbox,
)


@pytest.mark.usefixtures("beside_originals")
def test_a_replayed_notification_of_the_original_dialect_is_refused_too() -> None:
    original = Protocol(KEY, dialect="PZC00", accept=["PZC00"])
    with (
        Agent(protocol=original) as publisher,
        Agent(protocol=Protocol(KEY)) as reader,
        Forwarder(publisher.pub_endpoint, lambda n, frames: [frames] * 3) as forwarder,
    ):
        subscription = _subscribe_behind(reader, publisher, forwarder)
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
        for number in range(20):
            publisher.publish("t", number)
        assert [subscription.recv(TIMEOUT).content for _ in range(20)] == list(range(20))
        publisher.publish("t", "end")
        assert subscription.recv(TIMEOUT).content == "end"
        assert reader.counters["refused_ReplayedMessage"] >= 40
        subscription.close()


def _subscribe_behind(reader: Agent, publisher: Agent, forwarder: Forwarder) -> Subscription:
    """An original publisher tells its endpoints by 'info'; this one tells the forwarder's."""
    known = publisher._publisher.endpoint
    publisher._publisher.endpoint = forwarder.endpoint
    try:
        return reader.subscribe(publisher.rep_endpoint, "t")
    finally:
        publisher._publisher.endpoint = known


def test_a_publisher_that_stays_away_is_lost_once_and_heard_again_when_it_returns(
    monkeypatch: pytest.MonkeyPatch,
    timings: Callable[..., None],
) -> None:
    timings(silence=0.05)
    timings(publisher_retry=0.05)
    lost: queue.SimpleQueue[str] = queue.SimpleQueue()
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    with Agent(protocol=Protocol(KEY)) as reader:
        got = Inbox()
        with Child() as first:
            rep, pub = first.rep, first.pub
            subscription = reader.subscribe(rep, "t", got)
            subscription.on_gap, subscription.on_lost = gaps.put, lost.put
        assert rep in lost.get(timeout=TIMEOUT)
        with Child(rep, pub):
            assert gaps.get(timeout=TIMEOUT).restarted
            reader.request(rep, ["t", 3], TIMEOUT)
            assert got.contents(3) == [0, 1, 2]
        monkeypatch.undo()
        assert lost.empty()
        assert len(subscription.gaps) == 1
