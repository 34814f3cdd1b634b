from __future__ import annotations

import gc
import queue
import threading
import weakref
from typing import Any

import psutil
import pytest

from pzc import (
    Agent,
    Gap,
    Protocol,
)

from tests.agents.receiving import busy_helpers, leased
from tests.agents.stamped import of_yesterday
from tests.contract.rigs.altered import instead
from tests.contract.rigs.listening import Watched
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    Elsewhere,
    Forwarder,
    Frames,
    in_place_of,
)

pytestmark = pytest.mark.usefixtures("broadcast")


class Behind(Watched, Elsewhere):
    """A publisher behind a forwarder, that tells when its filters changed."""


def test_a_publisher_that_comes_back_in_time_is_not_lost(reader: Agent) -> None:
    told: list[object] = []
    with Behind(protocol=Protocol(KEY)) as publisher:
        heard = lambda: publisher.wait_for_subscribers("t", 1, 0)  # noqa: E731
        with Forwarder(publisher.pub_endpoint, lambda _, frames: [frames]) as forwarder:
            publisher.advertised = forwarder.endpoint
            subscription = reader.subscribe(publisher.rep_endpoint, "t")
            subscription.on_lost = told.append
            publisher.publish("t", "before")
            assert subscription.recv(TIMEOUT).content == "before"
        publisher.wait_until(lambda: not heard())
        publisher.publish("t", "meanwhile")
        with Forwarder(publisher.pub_endpoint, lambda _, frames: [frames], forwarder.endpoint):
            publisher.wait_until(heard)
            publisher.publish("t", "after")
            assert subscription.recv(TIMEOUT).content == "after"
            assert subscription.gaps == [Gap(publisher.epoch, 2, 2)]
            assert told == []
            subscription.close()


def connected(pub_endpoint: str) -> bool:
    """Whether this process has a connection to a PUB endpoint."""
    port = int(pub_endpoint.rpartition(":")[2])
    return any(each.raddr and each.raddr.port == port for each in psutil.Process().net_connections("tcp"))


def test_subscriptions_follow_a_publisher_to_another_pub_endpoint(reader: Agent) -> None:
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    first = Agent(protocol=Protocol(KEY))
    rep = first.rep_endpoint
    subscriptions = [reader.subscribe(rep, topic) for topic in ("t", "t", "*")]
    for number in range(len(subscriptions)):
        subscriptions[number].on_gap = gaps.put
    first.stop()
    with in_place_of(first, Watched, rep, protocol=Protocol(KEY)) as second:
        assert second.pub_endpoint != first.pub_endpoint
        for _ in range(len(subscriptions)):
            assert gaps.get(timeout=TIMEOUT).restarted
        assert second.wait_for_subscribers("t", 1, TIMEOUT)
        second.publish("t", "here")
        assert [s.recv(TIMEOUT).content for s in subscriptions] == ["here"] * 3
        gone = [weakref.ref(each) for each in subscriptions]
        while subscriptions:
            subscriptions.pop().close()
        second.wait_until(lambda: not second.wait_for_subscribers("t", 1, 0))
        wait_until(lambda: not connected(second.pub_endpoint))
        wait_until(lambda: gc.collect() >= 0 and not any(each() for each in gone))


def test_of_publishers_that_come_and_go_nothing_stays(reader: Agent) -> None:
    for _ in range(3):
        with Agent(protocol=Protocol(KEY)) as publisher:
            reader.subscribe(publisher.rep_endpoint, "t").close()
    assert reader._subscribing.sub_socket._presence._numeric == {}


def test_two_sources_at_one_endpoint_are_merged_and_none_is_forgotten(reader: Agent) -> None:
    """The order of events when a new subscription is quicker than the news of the restart."""
    first = Agent(protocol=Protocol(KEY))
    rep, pub = first.rep_endpoint, first.pub_endpoint
    before = reader.subscribe(rep, "t")
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    before.on_gap = gaps.put
    with busy_helpers() as free:
        first.stop()
        with in_place_of(first, Agent, rep, pub, protocol=Protocol(KEY)) as second:
            reader.client.forget(rep)
            after = reader.subscribe(rep, "t")
            assert gaps.empty()
            free.set()
            assert gaps.get(timeout=TIMEOUT).restarted
            reader.loop.run(lambda: None)
            second.publish("t", "both")
            assert before.recv(TIMEOUT).content == after.recv(TIMEOUT).content == "both"
            assert after.gaps == []


class Asked(Elsewhere):
    """A publisher that notes each handshake with it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.handshakes = 0
        super().__init__(*args, **options)

    def describe(self) -> dict[str, Any]:
        self.handshakes += 1
        return super().describe()


class Astray(Asked):
    """A publisher that says it publishes where nobody can."""

    advertised = "tcp://nowhere at all"


def test_a_publisher_that_names_an_unusable_endpoint_is_followed_once_it_names_another(
    reader: Agent,
) -> None:
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    first = Agent(protocol=Protocol(KEY))
    rep = first.rep_endpoint
    subscriptions = [reader.subscribe(rep, topic) for topic in ("t", "*")]
    for each in subscriptions:
        each.on_gap = gaps.put
    first.stop()
    with in_place_of(first, Astray, rep, protocol=Protocol(KEY)) as second:
        wait_until(lambda: second.handshakes > 2)
        assert gaps.empty()
        second.advertised = ""
        assert [gaps.get(timeout=TIMEOUT).restarted for _ in subscriptions] == [True, True]
        second.publish("t", "here")
        assert [each.recv(TIMEOUT).content for each in subscriptions] == ["here"] * 2
        for each in subscriptions:
            each.close()


def test_a_hail_of_stale_notifications_asks_the_publisher_once_at_a_time(reader: Agent) -> None:
    with Asked(protocol=Protocol(KEY)) as publisher:

        def hail(frames: Frames) -> list[Frames]:
            return [*[of_yesterday(publisher, 1)] * 200, frames]

        with Forwarder(publisher.pub_endpoint, instead(1, hail)) as forwarder:
            publisher.advertised = forwarder.endpoint
            subscription = reader.subscribe(publisher.rep_endpoint, "t")
            before, over = publisher.handshakes, threading.Event()
            with leased() as received, busy_helpers() as free:
                publisher.publish("t", "new")
                assert subscription.recv(TIMEOUT).content == "new"
                assert reader.counters["clock_jumps"] == 200
                assert publisher.handshakes == before
                received.helpers.submit(over.set)
                free.set()
                assert over.wait(TIMEOUT)
            wait_until(lambda: publisher.handshakes > before)
            assert publisher.handshakes <= before + 2
            subscription.close()
