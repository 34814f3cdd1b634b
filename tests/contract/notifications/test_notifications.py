"""Notifications from end to end: real sockets, and real processes where one is named."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest
import zmq

from pzc import Agent, Protocol, latest

from tests.contract.acceptance import acceptance
from tests.contract.rigs.children import Child
from tests.contract.rigs.peers import (
    ENDPOINTS,
    KEY,
    TIMEOUT,
    Inbox,
    balance,
    run_threads,
)


def test_of_200_fresh_pairs_each_gets_what_is_published_right_after_subscribe() -> None:
    for number in range(200):
        with Agent() as publisher, Agent() as reader:
            subscription = reader.subscribe(publisher.rep_endpoint, "t")
            assert publisher.publish("t", number) == 1
            notification = subscription.recv(TIMEOUT)
            assert (notification.content, notification.sequence) == (number, 1)
            assert balance(subscription) == 1


@acceptance("G6")
def test_of_200_fresh_pairs_each_gets_what_is_published_once_there_is_a_subscriber() -> None:
    for number in range(200):
        with Agent() as publisher, Agent() as reader:
            got: queue.SimpleQueue[Any] = queue.SimpleQueue()

            def subscribe(publisher: Agent = publisher, reader: Agent = reader, got: Any = got) -> None:
                got.put(reader.subscribe(publisher.rep_endpoint, "t").recv(TIMEOUT).content)

            thread = threading.Thread(target=subscribe)
            thread.start()
            assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
            publisher.publish("t", number)
            assert got.get(timeout=TIMEOUT) == number
            thread.join(TIMEOUT)


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_every_kind_of_endpoint_carries_notifications(kind: str, tmp_path: Any) -> None:
    def endpoint(name: str) -> str:
        return {"ipc": f"ipc://{tmp_path}/{name}", "inproc": f"inproc://{name}"}.get(kind, kind)

    with Agent(endpoint("rep"), endpoint("pub")) as publisher, Agent() as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        for number in range(100):
            publisher.publish("t", number)
        assert [subscription.recv(TIMEOUT).content for _ in range(100)] == list(range(100))


@pytest.mark.parametrize(
    ("topic", "others"),
    [
        ("val", ["value", "va", "Val", "val+", "val+x", "+val", " val", "val "]),
        ("a+b", ["a", "a+", "a+b+c", "b", "a+b+1"]),
        ("Größe µ 電圧", ["Größe", "Größe µ", "Größe µ 電圧 2"]),
        ("with space\tand\nlines", ["with", "with space"]),
        ("+", ["++", "a+"]),
        ("1", ["11", "1+1", "0"]),
        ("__future__", ["__future", "__future__2"]),
        ("**", ["*x", "***"]),
        ("x" * 1_900, ["x" * 1_899, "x" * 1_901]),
    ],
)
def test_a_topic_is_exactly_that_topic(pair: tuple[Agent, Agent], topic: str, others: list[str]) -> None:
    publisher, reader = pair
    one, everything = Inbox(), Inbox()
    reader.subscribe(publisher.rep_endpoint, topic, one)
    subscription = reader.subscribe(publisher.rep_endpoint, "*", everything)
    for other in others:
        publisher.publish(other, "other")
    publisher.publish(topic, "own")
    notification = one.next()
    assert (notification.topic, notification.content, notification.sequence) == (topic, "own", 1)
    assert [n.topic for n in everything.take(len(others) + 1)] == [*others, topic]
    assert one.queue.empty()
    assert subscription.dropped == 0


@pytest.mark.parametrize("key", ["", "a", "a+b", "ключ", "%2B", " ", "+"])
def test_a_key_arrives_as_it_was_and_selects(pair: tuple[Agent, Agent], key: str) -> None:
    publisher, reader = pair
    chosen = reader.subscribe(publisher.rep_endpoint, "t", key=key)
    everything = reader.subscribe(publisher.rep_endpoint, "t")
    publisher.publish("t", "other", key="another")
    publisher.publish("t", "chosen", key=key)
    assert [everything.recv(TIMEOUT).key for _ in range(2)] == ["another", key]
    notification = chosen.recv(TIMEOUT)
    assert (notification.content, notification.key, notification.sequence) == ("chosen", key, 2)
    assert balance(chosen) == 1


def test_a_slow_callback_does_not_delay_requests(pair: tuple[Agent, Agent]) -> None:
    publisher, reader = pair
    entered, opened = threading.Event(), threading.Event()

    def callback(_: object) -> None:
        entered.set()
        opened.wait(TIMEOUT)

    reader.subscribe(publisher.rep_endpoint, "t", callback)
    other = reader.subscribe(publisher.rep_endpoint, "t")
    publisher.publish("t", 0)
    assert entered.wait(TIMEOUT)
    assert publisher.request(reader.rep_endpoint, "echo", timeout=TIMEOUT) == "echo"
    assert reader.request(publisher.rep_endpoint, "echo", timeout=TIMEOUT) == "echo"
    assert other.recv(TIMEOUT).content == 0
    opened.set()


def test_a_callback_may_subscribe_request_and_close(pair: tuple[Agent, Agent]) -> None:
    publisher, reader = pair
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def callback(_: object) -> None:
        inner = reader.subscribe(publisher.rep_endpoint, "inner")
        publisher.publish("inner", reader.request(publisher.rep_endpoint, "echo"))
        found.put(inner.recv(TIMEOUT).content)
        inner.close()
        outer.close()

    outer = reader.subscribe(publisher.rep_endpoint, "outer", callback)
    publisher.publish("outer", 0)
    assert found.get(timeout=TIMEOUT) == "echo"


def test_an_agent_may_be_stopped_in_a_callback() -> None:
    with Agent() as publisher:
        reader = Agent()
        reader.subscribe(publisher.rep_endpoint, "t", lambda _: reader.stop())
        publisher.publish("t", 0)
        assert reader.join(TIMEOUT)


def test_large_contents_arrive_whole(pair: tuple[Agent, Agent]) -> None:
    publisher, reader = pair
    subscription = reader.subscribe(publisher.rep_endpoint, "t")
    for size in (0, 1, 65_535, 65_536, 65_537, 5_000_000):
        content = bytes(size)
        publisher.publish("t", content)
        assert subscription.recv(TIMEOUT).content == content


def test_a_content_that_is_changed_after_publish_arrives_as_it_was(pair: tuple[Agent, Agent]) -> None:
    publisher, reader = pair
    subscription = reader.subscribe(publisher.rep_endpoint, "t", transport="tcp")
    content = bytearray(b"a" * 1_000_000)
    publisher.publish("t", content)
    content[:] = b"b" * len(content)
    assert subscription.recv(TIMEOUT).content == b"a" * 1_000_000


@pytest.mark.usefixtures("beside_originals")
def test_an_original_subscriber_and_ours_hear_the_same(pair: tuple[Agent, Agent]) -> None:
    publisher, reader = pair
    ours = reader.subscribe(publisher.rep_endpoint, "val")
    context = zmq.Context()
    original = context.socket(zmq.SUB)
    try:
        original.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
        original.connect(publisher.pub_endpoint)
        original.subscribe(f"PZC00+{publisher.rep_endpoint}+val")
        assert publisher.wait_for_subscribers("val", 2, TIMEOUT)
        for number in range(10):
            publisher.publish("val", (number, None, None))
        parsed = [Protocol(KEY).parse(original.recv_multipart()) for _ in range(10)]
        assert [p[:3] for p in parsed] == [
            (publisher.rep_endpoint, "val", (n, None, None)) for n in range(10)
        ]
        assert [ours.recv(TIMEOUT).content for _ in range(10)] == [(n, None, None) for n in range(10)]
    finally:
        original.close(0)
        context.term()


@pytest.mark.usefixtures("beside_originals")
@pytest.mark.parametrize("key", ["", KEY])
def test_an_agent_that_speaks_the_original_dialect_is_understood(key: str) -> None:
    original = Protocol(key, dialect="PZC00", accept=["PZC00"])
    with Agent(protocol=original) as publisher, Agent(protocol=Protocol(key)) as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "val")
        longer = reader.subscribe(publisher.rep_endpoint, "value")
        assert publisher.wait_for_subscribers("val", 1, TIMEOUT)
        assert publisher.wait_for_subscribers("value", 2, TIMEOUT)
        for topic in ("value", "val"):
            publisher.publish(topic, topic)
        notification = subscription.recv(TIMEOUT)
        assert (notification.publisher, notification.content) == (publisher.rep_endpoint, "val")
        assert (notification.sequence, notification.epoch) == (0, 0)
        assert notification.sent_at == notification.received_at
        assert longer.recv(TIMEOUT).content == "value"


def test_a_publisher_in_another_process_is_heard() -> None:
    with Child() as child, Agent(protocol=Protocol(KEY)) as reader:
        got = Inbox()
        subscription = reader.subscribe(child.rep, "t", got)
        assert reader.request(child.rep, ["t", 500], TIMEOUT) == list(range(1, 501))
        notifications = got.take(500)
        assert [n.content for n in notifications] == list(range(500))
        assert {n.name for n in notifications} == {"child"}
        assert len({n.epoch for n in notifications}) == 1
        assert balance(subscription) == 500


def test_after_close_returned_no_callback_starts_while_everybody_publishes(pair: tuple[Agent, Agent]) -> None:
    publisher, reader = pair
    stop = threading.Event()
    late: list[object] = []

    def publish() -> None:
        while not stop.is_set():
            publisher.publish("t", 0)

    def come_and_go() -> None:
        try:
            for _ in range(40):
                closed, heard = threading.Event(), threading.Event()

                def callback(
                    n: object, closed: threading.Event = closed, heard: threading.Event = heard
                ) -> None:
                    heard.set()
                    if closed.is_set():
                        late.append(n)

                subscription = reader.subscribe(publisher.rep_endpoint, "t", callback, policy=latest(1))
                assert heard.wait(TIMEOUT)
                subscription.close()
                closed.set()
        finally:
            stop.set()

    run_threads(publish, come_and_go)
    assert late == []
