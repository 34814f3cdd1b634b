"""What agents tell of their topics, links and subscriptions."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from pzc import Agent, drop, latest

from tests.contract.rigs.pairs import LONG, WAYS, pair, read, wait_until
from tests.contract.rigs.peers import TIMEOUT

every_way = pytest.mark.parametrize("way", WAYS)


def _link(publisher: Agent) -> dict[str, Any]:
    (link,) = publisher.statistics()["links"]["links"]
    return link


def _of(reader: Agent) -> dict[str, Any]:
    (subscription,) = reader.statistics()["subscriptions"]
    return subscription


def _settle(publisher: Agent) -> None:
    wait_until(lambda: not _link(publisher)["topics"]["t"]["outstanding"])


@every_way
def test_a_link_tells_what_was_published_delivered_and_how_much(way: str) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        for _ in range(10):
            publisher.publish("t", bytes(1000))
        read(subscription, 10)
        _settle(publisher)
        topic, link = publisher.statistics()["topics"]["t"], _link(publisher)
        assert (topic["published"], topic["dropped"], topic["subscribers"]) == (10, 0, 1)
        assert link["transport"] == way
        assert (link["sent"], link["topics"]["t"]["delivered"], link["topics"]["t"]["dropped"]) == (10, 10, 0)
        encoded = way != "inproc"
        assert (topic["bytes"] >= 10_000) == (link["bytes"] >= 10_000) == encoded
        assert 1 <= link["age"]["measured"] <= 2
        assert 0 < topic["rate_hz"] <= 10.0


@every_way
def test_a_subscription_tells_what_it_received_and_how_old_that_was(way: str) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        before = time.time()
        for _ in range(10):
            publisher.publish("t", bytes(1000))
        read(subscription, 10)
        told = _of(reader)
        assert (told["received"], told["dropped"], told["throttled"], told["gaps"]) == (10, 0, 0, 0)
        assert (told["transport"], told["policy"]) == (way, "block")
        assert 0 < told["rate_hz"] <= 10.0
        assert (told["bytes"] >= 10_000) == (way != "inproc")
        age = told["age"]
        assert 1 <= age["measured"] <= 2
        assert (
            0 <= age["min"] <= age["mean"] <= age["max"] <= time.time() - before + 0.002
        )  # told to the millisecond
        assert age["min"] <= age["p99"] <= age["max"]


def test_a_broadcast_is_measured_as_well() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", transport="tcp")
        for _ in range(10):
            publisher.publish("t", bytes(1000))
        found = [subscription.recv(TIMEOUT) for _ in range(10)]
        topic, told = publisher.statistics()["topics"]["t"], _of(reader)
        assert topic["bytes"] == told["bytes"] == sum(notification.size for notification in found)
        assert (topic["published"], told["received"]) == (10, 10)
        assert 1 <= told["age"]["measured"] <= 2  # those that come together are one arrival


def test_a_size_is_that_of_the_encoded_content() -> None:
    with pair() as (publisher, reader):
        large = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publisher.publish("t", np.zeros(100_000, "u1"))
        publisher.publish("t", b"x" * 50)
        with large.recv_zero_copy(TIMEOUT) as notification:
            assert 100_000 <= notification.size < 101_000
        assert 50 <= large.recv(TIMEOUT).size < 200
        assert 100_050 <= _of(reader)["bytes"] < 101_200


def test_what_nobody_needs_encoded_has_no_bytes() -> None:
    with Agent() as publisher:
        publisher.publish("t", bytes(1000))
        topic = publisher.statistics()["topics"]["t"]
        assert (topic["published"], topic["bytes"]) == (1, 0)
        assert 0 < topic["rate_hz"] <= 1.0


def test_a_link_and_a_broadcast_together_count_a_content_once() -> None:
    with pair() as (publisher, reader):
        linked = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        heard = reader.subscribe(publisher.rep_endpoint, "t")
        publisher.publish("t", bytes(1000))
        read(linked, 1)
        read(heard, 1)
        assert 1000 <= publisher.statistics()["topics"]["t"]["bytes"] < 2000


@pytest.mark.needs("memfd", "unix")
def test_who_holds_a_lease_is_told() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publisher.publish("t", np.zeros(1 << 20, "u1"))
        with subscription.recv_zero_copy(TIMEOUT):
            assert _link(publisher)["leases"] == 1
        wait_until(lambda: _link(publisher)["leases"] == 0)


def test_another_agent_can_ask() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publisher.publish("t", 1)
        read(subscription, 1)
        told = reader.request(publisher.rep_endpoint, {"pzc": "statistics"})
        assert told["topics"]["t"]["published"] == 1
        assert told["links"]["links"][0]["transport"] == "unix"


@every_way
def test_a_throttle_counts_what_it_leaves_out(way: str) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(
            publisher.rep_endpoint, "t", policy=LONG, transport=way, throttle=0.001
        )
        for number in range(10):
            publisher.publish("t", number)
        assert read(subscription, 1) == [0]
        wait_until(lambda: subscription.throttled == 9)
        assert (subscription.received, subscription.dropped, subscription.pending) == (1, 0, 0)
        assert _of(reader)["throttled"] == 9
        _settle(publisher)


def test_a_throttle_does_not_count_other_keys() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", key="a", throttle=0.001)
        for key in "abab":
            publisher.publish("t", key, key=key)
        assert subscription.recv(TIMEOUT).content == "a"
        wait_until(lambda: subscription.throttled == 1)
        assert (subscription.received, subscription.dropped, subscription.pending) == (1, 0, 0)


@pytest.mark.parametrize("policy", [drop(3), latest(3)])
def test_received_dropped_throttled_and_pending_are_what_was_published(policy: Any) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=policy)
        slow = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, throttle=0.001)
        for number in range(20):
            publisher.publish("t", number)
        for each in (subscription, slow):
            wait_until(lambda each=each: each.dropped + each.throttled + each.pending == 20)
        assert (subscription.throttled, slow.throttled) == (0, 19)
