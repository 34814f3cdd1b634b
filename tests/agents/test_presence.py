from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from pzc import (
    Agent,
    Gap,
    Protocol,
)
from pzc.agents.notifications import publisher as publishers
from pzc.agents.server import control
from pzc.transport import wire

from tests.agents.inside import dialects_of
from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    in_place_of,
)

pytestmark = pytest.mark.usefixtures("broadcast")


def test_a_publisher_that_comes_back_in_time_is_not_lost(reader: Agent) -> None:
    told: list[object] = []
    changes: queue.SimpleQueue[None] = queue.SimpleQueue()
    with Agent(protocol=Protocol(KEY)) as publisher:
        publisher.on_subscribers = lambda: changes.put(None)

        def wait_until_heard(dialects: tuple[str, ...]) -> None:
            while dialects_of(publisher, "t") != dialects:
                changes.get(timeout=TIMEOUT)

        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        subscription.on_lost = told.append
        publisher.publish("t", "before")
        assert subscription.recv(TIMEOUT).content == "before"
        publisher.loop.run(lambda: publisher._publishing.broadcast._socket.unbind(publisher.pub_endpoint))
        wait_until_heard(())
        publisher.publish("t", "meanwhile")
        publisher.loop.run(lambda: publisher._publishing.broadcast._socket.bind(publisher.pub_endpoint))
        wait_until_heard(("PZC01",))
        publisher.publish("t", "after")
        assert subscription.recv(TIMEOUT).content == "after"
    assert subscription.gaps == [Gap(publisher.epoch, 2, 2)]
    assert told == []


def test_subscriptions_follow_a_publisher_to_another_pub_endpoint(reader: Agent) -> None:
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    first = Agent(protocol=Protocol(KEY))
    rep = first.rep_endpoint
    subscriptions = [reader.subscribe(rep, topic) for topic in ("t", "t", "*")]
    for subscription in subscriptions:
        subscription.on_gap = gaps.put
    first.stop()
    with in_place_of(first, Agent, rep, protocol=Protocol(KEY)) as second:
        assert second.pub_endpoint != first.pub_endpoint
        for _ in subscriptions:
            assert gaps.get(timeout=TIMEOUT).restarted
        assert second.wait_for_subscribers("t", 1, TIMEOUT)
        second.publish("t", "here")
        assert [s.recv(TIMEOUT).content for s in subscriptions] == ["here"] * 3
        for subscription in subscriptions:
            subscription.close()
        reader._subscribing.sub_socket._loop.run(lambda: None)
        assert not reader._subscribing.sub_socket._shares
        assert not reader._subscribing.sub_socket._presence._watched


def test_two_sources_at_one_endpoint_are_merged_and_none_is_forgotten(
    reader: Agent, request: pytest.FixtureRequest
) -> None:
    """The order of events when a new subscription is quicker than the news of the restart."""
    first = Agent(protocol=Protocol(KEY))
    rep, pub = first.rep_endpoint, first.pub_endpoint
    held = threading.Event()
    request.addfinalizer(held.set)
    meet = reader._subscribing.sub_socket._presence._meet

    def later(endpoint: str) -> None:
        assert held.wait(TIMEOUT)
        meet(endpoint)

    reader._subscribing.sub_socket._presence._meet = later
    before = reader.subscribe(rep, "t")
    first.stop()
    with in_place_of(first, Agent, rep, pub, protocol=Protocol(KEY)) as second:
        reader.client.forget(rep)
        after = reader.subscribe(rep, "t")
        gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
        before.on_gap = gaps.put
        held.set()
        assert gaps.get(timeout=TIMEOUT).restarted
        reader.loop.run(lambda: None)
        second.publish("t", "both")
        assert before.recv(TIMEOUT).content == after.recv(TIMEOUT).content == "both"
        assert after.gaps == []


def test_a_clock_that_was_set_is_measured_again_and_delivery_goes_on(
    reader: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Agent(protocol=Protocol(KEY)) as publisher:
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        real = wire.now_ms
        ahead = 3_600_000

        measured = threading.Event()
        moved = reader._subscribing.sub_socket.moved

        def tell(endpoint: str, peer: Any) -> Any:
            held = moved(endpoint, peer)
            if abs(peer.offset_ms - ahead) < 60_000:
                measured.set()
            return held

        monkeypatch.setattr(reader._subscribing.sub_socket, "moved", tell)
        monkeypatch.setattr(control, "now_ms", lambda: real() + ahead)
        monkeypatch.setattr(publishers, "time_ns", lambda: (real() + ahead) * 1_000_000)
        publisher.publish("t", "too new to be true")
        assert measured.wait(TIMEOUT)
        publisher.publish("t", "believed")
        assert subscription.recv(TIMEOUT).content == "believed"
        assert subscription.dropped == 1
        assert reader.counters["clock_jumps"] == 1
