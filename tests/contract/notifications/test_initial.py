"""``subscribe(initial=True)``: what the publisher kept comes first, once, and nothing is lost or repeated."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from pzc import (
    Agent,
    ConfigError,
    Policy,
    Protocol,
    ReceiveTimeout,
    Refused,
    SerializeError,
    block,
    drop,
    latest,
)

from tests.contract.rigs import initial
from tests.contract.rigs.initial import seen
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, balance

agents = initial.agents

PLANES = [
    pytest.param(drop(10_000), "auto", id="broadcast"),
    pytest.param(block(TIMEOUT), "inproc", id="inproc"),
    pytest.param(block(TIMEOUT), "unix", id="unix"),
    pytest.param(block(TIMEOUT), "tcp", id="tcp"),
    pytest.param(drop(10_000), "unix", id="lossy unix"),
]
every_plane = pytest.mark.parametrize(("policy", "way"), PLANES)


@every_plane
def test_the_kept_one_comes_first_and_once(agents: tuple[Agent, Agent], policy: Policy, way: str) -> None:
    publisher, reader = agents
    for content in ("a", "b", "c"):
        publisher.publish("t", content)
    subscription = reader.subscribe(
        publisher.rep_endpoint, "t", policy=policy, transport=way, initial=True, timeout=TIMEOUT
    )
    publisher.publish("t", "d")
    found = [seen(subscription.recv(TIMEOUT)) for _ in range(2)]
    assert found == [(3, "c", True), (4, "d", False)]
    assert (subscription.received, subscription.dropped, subscription.pending) == (2, 0, 0)
    assert subscription.gaps == []


@every_plane
def test_it_tells_when_it_was_published_and_by_whom(
    agents: tuple[Agent, Agent], policy: Policy, way: str
) -> None:
    publisher, reader = agents
    live = reader.subscribe(publisher.rep_endpoint, "t", timeout=TIMEOUT)
    publisher.publish("t", {"u": 1.5}, key="left")
    before = live.recv(TIMEOUT)
    found = reader.subscribe(
        publisher.rep_endpoint, "t", policy=policy, transport=way, initial=True, timeout=TIMEOUT
    ).recv(TIMEOUT)
    # The two planes take the time of one publication one after the other.
    assert abs(found.sent_at - before.sent_at) < 1.0
    assert found.sent_at < found.received_at
    for name in ("publisher", "name", "topic", "key", "sequence", "epoch", "content", "key_id"):
        assert getattr(found, name) == getattr(before, name)


@every_plane
def test_without_a_kept_one_nothing_arrives(agents: tuple[Agent, Agent], policy: Policy, way: str) -> None:
    publisher, reader = agents
    publisher.publish("other", 1)
    subscription = reader.subscribe(
        publisher.rep_endpoint, "other", policy=policy, transport=way, initial=True, timeout=TIMEOUT
    )
    publisher.publish("other", 2)
    assert seen(subscription.recv(TIMEOUT)) == (2, 2, False)
    assert (subscription.pending, subscription.gaps) == (0, [])


@every_plane
def test_one_of_each_key_comes_in_the_order_of_publication(
    agents: tuple[Agent, Agent], policy: Policy, way: str
) -> None:
    publisher, reader = agents
    for key, content in (("a", 1), ("b", 2), ("a", 3)):
        publisher.publish("t", content, key=key)
    options = {"policy": policy, "transport": way, "initial": True, "timeout": TIMEOUT}
    of_all = reader.subscribe(publisher.rep_endpoint, "t", **options)
    of_one = reader.subscribe(publisher.rep_endpoint, "t", key="b", **options)
    assert [seen(of_all.recv(TIMEOUT)) for _ in range(2)] == [(2, 2, True), (3, 3, True)]
    assert seen(of_one.recv(TIMEOUT)) == (2, 2, True)
    assert (of_all.pending, of_one.pending) == (0, 0)


@every_plane
def test_a_star_begins_with_every_topic(agents: tuple[Agent, Agent], policy: Policy, way: str) -> None:
    publisher, reader = agents
    publisher.advertise("u", keep_last=True)
    publisher.publish("t", 1)
    publisher.publish("u", 2)
    publisher.publish("not kept", 3)
    subscription = reader.subscribe(
        publisher.rep_endpoint, "*", policy=policy, transport=way, initial=True, timeout=TIMEOUT
    )
    first = sorted((n.topic, n.content, n.initial) for n in (subscription.recv(TIMEOUT) for _ in range(2)))
    assert first == [("t", 1, True), ("u", 2, True)]
    publisher.publish("u", 4)
    assert seen(subscription.recv(TIMEOUT)) == (2, 4, False)


@every_plane
def test_nothing_is_lost_or_repeated_while_somebody_publishes(
    agents: tuple[Agent, Agent], policy: Policy, way: str
) -> None:
    publisher, reader = agents
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set():
            publisher.publish("t", None)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for _ in range(10):
            subscription = reader.subscribe(
                publisher.rep_endpoint, "t", policy=policy, transport=way, initial=True, timeout=TIMEOUT
            )
            with subscription:
                found = [subscription.recv(TIMEOUT) for _ in range(20)]
            numbers = [notification.sequence for notification in found]
            assert numbers == list(range(numbers[0], numbers[0] + 20))
            assert [notification.initial for notification in found] == [True] + [False] * 19
            assert subscription.gaps == []
    finally:
        stop.set()
        thread.join(TIMEOUT)


@every_plane
def test_a_callback_gets_it(agents: tuple[Agent, Agent], policy: Policy, way: str) -> None:
    publisher, reader = agents
    publisher.publish("t", "kept")
    found: list[tuple[int, Any, bool]] = []
    subscription = reader.subscribe(
        publisher.rep_endpoint, "t", lambda n: found.append(seen(n)), policy=policy, transport=way,
        initial=True, timeout=TIMEOUT,
    )  # fmt: skip
    wait_until(lambda: found == [(1, "kept", True)])
    assert balance(subscription) == 1


def test_without_the_argument_nothing_kept_comes(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    publisher.publish("t", 1)
    subscription = reader.subscribe(publisher.rep_endpoint, "t")
    with pytest.raises(ReceiveTimeout):
        subscription.recv(0)
    publisher.publish("t", 2)
    assert seen(subscription.recv(TIMEOUT)) == (2, 2, False)


def test_what_is_kept_does_not_change_with_its_object(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    content = [1]
    publisher.publish("t", content)
    content.append(2)
    subscription = reader.subscribe(
        publisher.rep_endpoint, "t", policy=block(), transport="inproc", initial=True
    )
    assert subscription.recv(TIMEOUT).content == [1]


@pytest.mark.parametrize("content", [bytes(1 << 17), "x" * (1 << 17), np.zeros(1 << 17), [0.5] * (1 << 14)])
def test_a_large_one_is_not_kept_and_counted(agents: tuple[Agent, Agent], content: object) -> None:
    publisher, reader = agents
    publisher.publish("t", "small")
    publisher.publish("t", content)
    subscription = reader.subscribe(publisher.rep_endpoint, "t", initial=True)
    assert publisher.counters["keep_refused"] == 1
    publisher.publish("t", "next")
    assert seen(subscription.recv(TIMEOUT)) == (3, "next", False)


def test_a_loan_is_kept(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    with publisher.loan("t", 4, "i2") as array:
        array[:] = 7
    found = reader.subscribe(publisher.rep_endpoint, "t", initial=True).recv(TIMEOUT)
    assert found.content.tolist() == [7, 7, 7, 7]


def test_what_cannot_be_expressed_is_neither_published_nor_kept(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    publisher.publish("t", 1)
    with pytest.raises(SerializeError):
        publisher.publish("t", threading.Lock())
    assert seen(reader.subscribe(publisher.rep_endpoint, "t", initial=True).recv(TIMEOUT)) == (1, 1, True)


def test_who_is_advertised_otherwise_keeps_nothing(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    publisher.publish("t", 1)
    publisher.advertise("t")
    subscription = reader.subscribe(publisher.rep_endpoint, "t", initial=True)
    publisher.publish("t", 2)
    assert seen(subscription.recv(TIMEOUT)) == (2, 2, False)


def test_a_throttled_subscription_begins_with_it(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    publisher.publish("t", 1)
    subscription = reader.subscribe(publisher.rep_endpoint, "t", initial=True, throttle=0.001)
    assert seen(subscription.recv(TIMEOUT)) == (1, 1, True)


def test_an_older_one_makes_room_in_an_inbox_for_the_newest(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    for key in "abc":
        publisher.publish("t", key, key=key)
    subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=latest(), initial=True)
    assert seen(subscription.recv(TIMEOUT)) == (3, "c", True)
    assert (subscription.received, subscription.dropped) == (1, 2)


@contextmanager
def _publisher(serializer: str, content: object) -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY, serializer)) as publisher:
        publisher.advertise("t", keep_last=True)
        publisher.publish("t", content)
        yield publisher


@pytest.mark.parametrize("serializer", ["json", "msgpack", "pickle2"])
def test_every_serializer_can_be_kept(serializer: str) -> None:
    with _publisher(serializer, {"a": 1}) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        found = reader.subscribe(publisher.rep_endpoint, "t", initial=True).recv(TIMEOUT)
        assert found.content == {"a": 1}


def test_an_agent_that_never_unpickles_does_not_begin_with_a_pickle() -> None:
    pattern = re.compile("x")  # which nothing but a pickle can hold
    with _publisher("pickle", pattern) as publisher, Agent(protocol=Protocol(KEY, "json")) as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t", initial=True)
        assert [(gap.first, gap.last) for gap in subscription.gaps] == [(1, 1)]
        (told,) = reader.statistics()["subscriptions"]
        assert told["link"]["counts"]["refused_SerializerRefused"] == 1


def test_an_encrypting_publisher_tells_it_encrypted() -> None:
    sealed = Protocol(KEY, seal=True, accept=("PZC01",))
    with Agent(protocol=sealed) as publisher, Agent(protocol=sealed) as reader:
        publisher.advertise("t", keep_last=True)
        publisher.publish("t", "kept")
        found = reader.subscribe(publisher.rep_endpoint, "t", initial=True).recv(TIMEOUT)
        assert (found.content, found.initial) == ("kept", True)


def test_an_original_publisher_refuses_it() -> None:
    protocol = Protocol("", accept=("PZC00",))
    with Agent(protocol=protocol) as publisher, Agent(protocol=Protocol("")) as reader:
        with pytest.raises(Refused, match="original Pizco"):
            reader.subscribe(publisher.rep_endpoint, "t", initial=True)
        assert reader.statistics()["subscriptions"] == []


def test_raw_frames_are_not_kept(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    with pytest.raises(ConfigError):
        reader.subscribe(publisher.rep_endpoint, "t", raw=True, initial=True)


def test_the_bound_is_that_of_the_contents(agents: tuple[Agent, Agent], timings: Callable[..., None]) -> None:
    publisher, _ = agents
    timings(retained_bytes=10)
    publisher.publish("t", "more than ten bytes")
    assert publisher.counters["keep_refused"] == 1
