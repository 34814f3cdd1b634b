from __future__ import annotations

import queue
import re

import pytest

from pzc import (
    Agent,
    PeerLost,
    PolicyRefused,
    Protocol,
    Proxy,
    Server,
    Signal,
    SubscriptionClosed,
    block,
    close,
    drop,
)

from tests.contract.rigs.children import Child
from tests.contract.rigs.pairs import LONG, OUTSIDE, WAYS, Publishing, pair, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT

every_way = pytest.mark.parametrize("way", WAYS)
over_a_wire = pytest.mark.parametrize("way", OUTSIDE)


def test_agents_of_a_process_share_one_link() -> None:
    with pair() as (publisher, reader), Agent(protocol=Protocol(KEY)) as another:
        subscriptions = [
            agent.subscribe(publisher.rep_endpoint, topic, policy=LONG, transport="unix")
            for agent in (reader, another)
            for topic in ("a", "b")
        ]
        assert len(publisher.statistics()["links"]["links"]) == 1
        reader.stop()
        publisher.publish("a", 1)
        assert subscriptions[2].recv(TIMEOUT).content == 1
        with pytest.raises(SubscriptionClosed):
            subscriptions[0].recv(TIMEOUT)


@every_way
def test_a_link_ends_with_its_last_subscription(way: str) -> None:
    with pair() as (publisher, reader):
        subscriptions = [
            reader.subscribe(publisher.rep_endpoint, topic, policy=LONG, transport=way) for topic in "ab"
        ]
        subscriptions[0].close()
        assert len(publisher.statistics()["links"]["links"]) == 1
        subscriptions[1].close()
        wait_until(lambda: not publisher.statistics()["links"]["links"])


@every_way
def test_a_later_subscription_gets_what_is_published_later(way: str) -> None:
    with pair() as (publisher, reader):
        first = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        for number in range(10):
            publisher.publish("t", number)
        later = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        publisher.publish("t", "after")
        assert later.recv(TIMEOUT).content == "after"
        assert (later.received, later.dropped, later.gaps) == (1, 0, [])
        assert first.pending == 11


@every_way
def test_a_subscription_tells_its_transport(way: str) -> None:
    with pair() as (publisher, reader):
        assert reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way).transport == way


@pytest.mark.needs("unix")
def test_the_shortest_way_is_chosen() -> None:
    with pair() as (publisher, reader), Child() as child:
        assert reader.subscribe(publisher.rep_endpoint, "t", policy=LONG).transport == "inproc"
        assert reader.subscribe(child.rep, "t", policy=LONG).transport == "unix"


def test_lossy_subscriptions_over_tcp_take_the_broadcast_plane() -> None:
    with pair() as (publisher, reader):
        reader.subscribe(publisher.rep_endpoint, "t", policy=drop(), transport="tcp")
        assert publisher.statistics()["links"]["links"] == []


def test_a_publisher_elsewhere_is_not_in_this_process() -> None:
    with Agent(protocol=Protocol(KEY)) as reader, Child() as child:
        with pytest.raises(PeerLost, match="not in this process"):
            reader.subscribe(child.rep, "t", policy=LONG, transport="inproc")


def test_raw_frames_do_not_come_over_a_link() -> None:
    with pair() as (publisher, reader), pytest.raises(PolicyRefused, match="raw"):
        reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, raw=True)


@every_way
def test_only_wanted_keys_are_delivered_and_all_are_acknowledged(way: str) -> None:
    with pair() as (publisher, reader):
        policy = block(timeout=TIMEOUT, slots=2)
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, key="a", transport=way)
        for number in range(20):
            publisher.publish("t", number, key="ab"[number % 2])
            if number % 2 == 0:
                assert subscription.recv(TIMEOUT).content == number
        assert (subscription.received, subscription.dropped) == (10, 0)


@over_a_wire
def test_a_reader_that_refuses_pickles_counts_them_as_lost(way: str) -> None:
    with (
        Agent(name="publisher", protocol=Protocol(KEY)) as publisher,
        Agent(protocol=Protocol(KEY, accept_serializers=["json", "msgpack"])) as reader,
    ):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        for number in range(40):
            publisher.publish("t", re.compile(str(number)))
        wait_until(lambda: subscription.dropped == 40)
        assert (subscription.received, len(subscription.gaps)) == (0, 40)


@every_way
def test_a_throttled_subscription_gets_fewer_and_is_done_with_all(way: str) -> None:
    with pair() as (publisher, reader):
        policy = block(timeout=TIMEOUT, slots=2)
        subscription = reader.subscribe(
            publisher.rep_endpoint, "t", policy=policy, transport=way, throttle=0.001
        )
        publishing = Publishing(publisher, "t", range(50))
        publishing.finish()
        assert subscription.recv(TIMEOUT).content == 0
        assert (subscription.pending, subscription.dropped) == (0, 0)


class Emitter:
    def __init__(self) -> None:
        self.changed = Signal()

    def go(self, count: int) -> None:
        for number in range(count):
            self.changed.emit(number)


def test_a_slot_may_have_a_policy_that_blocks() -> None:
    with Server(Emitter(), protocol=Protocol(KEY)) as server:
        proxy = Proxy(server.rep_endpoint, protocol=Protocol(KEY))
        try:
            got: queue.SimpleQueue[int] = queue.SimpleQueue()
            proxy.changed.connect(got.put, policy=LONG)
            proxy.go(200)
            assert [got.get(timeout=TIMEOUT) for _ in range(200)] == list(range(200))
        finally:
            close(proxy)


@over_a_wire
def test_an_agent_tells_of_the_links_of_its_subscriptions(way: str) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        publisher.publish("t", 1)
        subscription.recv(TIMEOUT)
        link = reader.statistics()["subscriptions"][0]["link"]
        assert (link["publisher"], link["transport"], link["state"]) == (publisher.agent_id, way, "alive")
        assert link["counts"]["notifications"] == 1
