"""What is broadcast, beside whatever other readers a topic has."""

from __future__ import annotations

from typing import Any

import pytest
import zmq

from pzc import Agent, Protocol, SerializeError, Subscription, block

from tests.agents.in_parts import InParts
from tests.contract.rigs.peers import KEY, TIMEOUT


def begun(publisher: Agent | InParts, reader: Agent, **options: Any) -> Subscription:
    """A subscription with one notification."""
    subscription = reader.subscribe(publisher.rep_endpoint, "t", transport="tcp", **options)
    assert publisher.publish("t", "first") == 1
    assert subscription.recv(TIMEOUT).content == "first"
    return subscription


def contents(subscription: Subscription, count: int) -> list[Any]:
    return [subscription.recv(TIMEOUT).content for _ in range(count)]


def test_it_counts_in_statistics_as_any_other(publisher: Agent, reader: Agent) -> None:
    begun(publisher, reader)
    before = publisher.statistics()["topics"]["t"]["bytes"]
    assert publisher.publish("t", "first") == 2
    about = publisher.statistics()["topics"]["t"]
    assert (about["published"], about["bytes"]) == (2, 2 * before)


def test_what_has_a_key_goes_in_order(publisher: Agent, reader: Agent) -> None:
    subscription = begun(publisher, reader)
    assert publisher.publish("t", "two", key="key") == 2
    assert publisher.publish("t", "three") == 3
    got = [subscription.recv(TIMEOUT) for _ in range(2)]
    assert [(n.content, n.key) for n in got] == [("two", "key"), ("three", "")]


def test_what_is_large_goes_in_order(publisher: Agent, reader: Agent) -> None:
    subscription = begun(publisher, reader)
    large = bytes(100_000)
    assert publisher.publish("t", large) == 2
    assert publisher.publish("t", "small") == 3
    assert contents(subscription, 2) == [large, "small"]


def test_a_content_that_cannot_be_expressed_takes_no_number(publisher: Agent, reader: Agent) -> None:
    begun(publisher, reader)
    with pytest.raises(SerializeError):
        publisher.publish("t", lambda: None)
    assert publisher.publish("t", "two") == 2


def test_a_reader_with_a_link_gets_the_same(publisher: Agent, reader: Agent) -> None:
    subscription = begun(publisher, reader)
    assert publisher.publish("t", "two") == 2
    with reader.subscribe(publisher.rep_endpoint, "t", policy=block()) as linked:
        assert publisher.publish("t", "three") == 3
        assert linked.recv(TIMEOUT).content == "three"
    assert contents(subscription, 2) == ["two", "three"]


@pytest.mark.usefixtures("beside_originals")
def test_an_original_peer_that_listens_too_gets_the_same(publisher: Agent, reader: Agent) -> None:
    subscription = begun(publisher, reader)
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    try:
        socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
        socket.connect(publisher.pub_endpoint)
        socket.setsockopt(zmq.SUBSCRIBE, f"PZC00+{publisher.rep_endpoint}+t".encode())
        assert publisher.wait_for_subscribers("t", 2, TIMEOUT)
        assert publisher.publish("t", "two") == 2
        assert socket.recv_multipart()[0].startswith(b"PZC00+")
    finally:
        socket.close(0)
        context.term()
    assert contents(subscription, 1) == ["two"]


def test_when_the_last_reader_has_gone_nothing_is_encoded(reader: Agent) -> None:
    with InParts(Protocol(KEY)) as publisher:
        with begun(publisher, reader):
            assert publisher.publish("t", "two") == 2
        publisher.wait_until(lambda: not publisher.dialects("t"))
        assert publisher.publish("t", lambda: None) == 3
