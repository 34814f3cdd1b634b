from __future__ import annotations

import queue
from collections.abc import Callable

import pytest

from pzc import Agent, Gap, Protocol

from tests.contract.rigs import altered
from tests.contract.rigs.peers import KEY, TIMEOUT, Elsewhere, Forwarder, Frames, balance

publisher = altered.publisher

pytestmark = pytest.mark.usefixtures("broadcast")

NEVER = 1_000.0


def number_of(frames: Frames) -> int:
    return int(frames[0].split(b"+")[3])


def lose_after(last: int) -> Callable[[int, Frames], list[Frames]]:
    """Passes beats, and messages up to a number."""
    return lambda _, frames: [frames] if number_of(frames) <= last else []


def test_a_loss_at_the_tail_is_counted_by_topic_and_by_all(publisher: Elsewhere, reader: Agent) -> None:
    with Forwarder(publisher.pub_endpoint, lose_after(2)) as forwarder:
        publisher.advertised = forwarder.endpoint
        told: queue.SimpleQueue[Gap] = queue.SimpleQueue()
        both = [reader.subscribe(publisher.rep_endpoint, topic) for topic in ("t", "*")]
        for subscription in both:
            subscription.on_gap = told.put
        for number in range(5):
            publisher.publish("t", number)
        assert [told.get(timeout=TIMEOUT) for _ in both] == [Gap(publisher.epoch, 3, 5)] * 2
        assert [balance(subscription) for subscription in both] == [5, 5]
        assert [subscription.gaps for subscription in both] == [[Gap(publisher.epoch, 3, 5)]] * 2
        assert reader.counters["notifications_lost"] == 3
        for subscription in both:
            subscription.close()


def test_when_all_is_lost_that_is_told_too(publisher: Elsewhere, reader: Agent) -> None:
    publisher.publish("t", "before")
    with Forwarder(publisher.pub_endpoint, lose_after(0)) as forwarder:
        publisher.advertised = forwarder.endpoint
        told: queue.SimpleQueue[Gap] = queue.SimpleQueue()
        with reader.subscribe(publisher.rep_endpoint, "t") as subscription:
            subscription.on_gap = told.put
            for number in range(5):
                publisher.publish("t", number)
            assert told.get(timeout=TIMEOUT) == Gap(publisher.epoch, 2, 6)
            assert (subscription.received, subscription.pending, subscription.dropped) == (0, 0, 5)


def test_a_publisher_that_stops_tells_first_how_far_it_came(
    reader: Agent, timings: Callable[..., None]
) -> None:
    timings(topic_beat=NEVER)
    told: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    with Elsewhere(protocol=Protocol(KEY)) as publisher:
        with Forwarder(publisher.pub_endpoint, lose_after(1)) as forwarder:
            publisher.advertised = forwarder.endpoint
            subscription = reader.subscribe(publisher.rep_endpoint, "t")
            subscription.on_gap = told.put
            for number in range(4):
                publisher.publish("t", number)
            publisher.stop()
            assert told.get(timeout=TIMEOUT) == Gap(publisher.epoch, 2, 4)
            subscription.close()
