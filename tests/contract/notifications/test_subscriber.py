from __future__ import annotations

import logging
import queue
import threading
from typing import Any

import pytest

from pzc import (
    Agent,
    AgentClosed,
    Gap,
    LocalProtocolError,
    PolicyRefused,
    Protocol,
    RemoteProtocolError,
    SerializeError,
    mailbox,
)

from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    Elsewhere,
    Forwarder,
    Inbox,
    run_threads,
)

pytestmark = pytest.mark.usefixtures("broadcast")


class Counted:
    """Counts its own unpickling."""

    unpickled = 0
    lock = threading.Lock()

    def __init__(self, value: int) -> None:
        self.value = value

    def __setstate__(self, state: dict[str, Any]) -> None:
        with Counted.lock:
            Counted.unpickled += 1
        self.__dict__.update(state)


class Unreadable:
    """Can be sent and not be read."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return int, ("not a number",)


def test_a_policy_that_is_not_offered_is_refused_at_subscribe(publisher: Agent, reader: Agent) -> None:
    publisher.advertise("t", policies=["block"])
    with pytest.raises(PolicyRefused):
        reader.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
    assert reader.statistics()["subscriptions"] == []


@pytest.mark.parametrize("topic", ["", "__placed__", "__lasts__", "\ud800", "x" * 2_100])
def test_a_topic_that_cannot_be_published_is_refused_at_subscribe(
    publisher: Agent, reader: Agent, topic: str
) -> None:
    with pytest.raises(LocalProtocolError):
        reader.subscribe(publisher.rep_endpoint, topic)
    assert reader.statistics()["subscriptions"] == []


def test_a_stopped_agent_cannot_subscribe(publisher: Agent) -> None:
    reader = Agent(protocol=Protocol(KEY))
    reader.stop()
    with pytest.raises(AgentClosed):
        reader.subscribe(publisher.rep_endpoint, "t")


def test_a_publisher_that_names_an_unusable_endpoint_is_told_apart(reader: Agent) -> None:
    with Elsewhere(protocol=Protocol(KEY)) as publisher:
        publisher.advertised = "tcp://not an address"
        with pytest.raises(RemoteProtocolError, match="cannot be used"):
            reader.subscribe(publisher.rep_endpoint, "t")
        assert reader.statistics()["subscriptions"] == []
        publisher.advertised = ""
    assert reader.loop.errors == 0


def test_a_message_is_decoded_once_and_everybody_sees_the_same_object(
    publisher: Agent, reader: Agent
) -> None:
    boxes = [Inbox() for _ in range(5)]
    for box, topic in zip(boxes, ["t", "t", "t", "*", "*"], strict=True):
        reader.subscribe(publisher.rep_endpoint, topic, box)
    own = reader.subscribe(publisher.rep_endpoint, "t")
    Counted.unpickled = 0
    shared: set[int] = set()
    for number in range(20):
        publisher.publish("t", Counted(number))
        shared = {id(box.next().content) for box in boxes}
        assert len(shared) == 1
    assert Counted.unpickled == 20
    assert id(own.recv(TIMEOUT).content) not in shared


def test_a_raw_subscription_alone_decodes_nothing(publisher: Agent, reader: Agent) -> None:
    raw = reader.subscribe(publisher.rep_endpoint, "t", raw=True)
    Counted.unpickled = 0
    publisher.publish("t", Counted(1))
    assert raw.recv(TIMEOUT).content is None
    assert Counted.unpickled == 0


def test_a_notification_tells_where_it_comes_from() -> None:
    with Agent(name="psu") as publisher, Agent() as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "volts")
        publisher.publish("volts", 3.3, key="channel 1+2")
        notification = subscription.recv(TIMEOUT)
    assert (notification.publisher, notification.name) == (publisher.agent_id, "psu")
    assert (notification.topic, notification.key) == ("volts", "channel 1+2")
    assert (notification.sequence, notification.epoch, notification.content) == (1, publisher.epoch, 3.3)
    assert abs(notification.received_at - notification.sent_at) < TIMEOUT
    assert (notification.key_id, notification.frames) == ("", ())


def test_content_that_cannot_be_decoded_here_is_a_loss_that_is_counted_and_said(
    publisher: Agent, reader: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    told: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    subscription = reader.subscribe(publisher.rep_endpoint, "t")
    raw = reader.subscribe(publisher.rep_endpoint, "t", raw=True)
    subscription.on_gap = told.put
    with caplog.at_level(logging.WARNING, "pzc.subscriber"):
        for content in ("first", Unreadable(), Unreadable(), "last"):
            publisher.publish("t", content)
        assert [subscription.recv(TIMEOUT).content for _ in range(2)] == ["first", "last"]
    assert [told.get(timeout=TIMEOUT) for _ in range(2)] == [Gap(publisher.epoch, n, n) for n in (2, 3)]
    assert (subscription.received, subscription.dropped) == (2, 2)
    assert [raw.recv(TIMEOUT).sequence for _ in range(4)] == [1, 2, 3, 4]
    assert reader.counters["refused_DecodeError"] == 2
    assert [record.getMessage().split(" is lost here")[0] for record in caplog.records] == [
        f"t of {publisher.rep_endpoint}"
    ]


def test_a_class_without_key_is_refused_where_it_is_published() -> None:
    with Agent() as publisher, Agent() as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        with pytest.raises(SerializeError, match=r"^run\[0\] is of class .*\.Counted, .*PZC_KEY"):
            publisher.publish("t", {"run": [Counted(1)]})
        publisher.publish("t", "plain")
        assert subscription.recv(TIMEOUT).content == "plain"
        assert subscription.dropped == 0


def test_a_loss_right_behind_subscribe_is_counted_by_topic_and_by_all(
    reader: Agent, publisher: Agent
) -> None:
    """Also for a topic that nobody had published when the subscription to all began."""
    with (
        Elsewhere(protocol=Protocol(KEY)) as behind,
        Forwarder(behind.pub_endpoint, lambda number, frames: [frames] if number > 4 else []) as forwarder,
    ):
        behind.advertised = forwarder.endpoint
        for _ in range(3):
            behind.publish("old", "before")
        one = reader.subscribe(behind.rep_endpoint, "old")
        everything = reader.subscribe(behind.rep_endpoint, "*")
        for topic in ("old", "new", "old", "new", "old", "new"):
            behind.publish(topic, topic)
        assert [everything.recv(TIMEOUT).content for _ in range(2)] == ["old", "new"]
        assert (one.dropped, everything.dropped) == (2, 4)
        one.close()
        everything.close()


def test_closing_one_subscription_leaves_the_accounts_of_the_others_alone(
    publisher: Agent, reader: Agent
) -> None:
    everything = reader.subscribe(publisher.rep_endpoint, "*")
    first = reader.subscribe(publisher.rep_endpoint, "t")
    publisher.publish("t", 1)
    assert first.recv(TIMEOUT).content == everything.recv(TIMEOUT).content == 1
    first.close()
    for number in range(2, 5):
        publisher.publish("t", number)
    assert [everything.recv(TIMEOUT).content for _ in range(3)] == [2, 3, 4]
    again = reader.subscribe(publisher.rep_endpoint, "t")
    everything.close()
    publisher.publish("t", 5)
    assert again.recv(TIMEOUT).content == 5
    assert again.gaps == everything.gaps == []


def test_what_was_published_between_two_subscriptions_is_no_loss(publisher: Agent, reader: Agent) -> None:
    keep = reader.subscribe(publisher.rep_endpoint, "other")
    gaps: list[Gap] = []
    for _ in range(3):
        with reader.subscribe(publisher.rep_endpoint, "*") as everything:
            publisher.publish("t", "heard")
            assert everything.recv(TIMEOUT).content == "heard"
            gaps += everything.gaps
        for _ in range(10):
            publisher.publish("t", "unheard")
    with reader.subscribe(publisher.rep_endpoint, "t") as subscription:
        publisher.publish("t", "heard")
        assert subscription.recv(TIMEOUT).content == "heard"
        assert subscription.gaps == gaps == []
    assert keep.dropped == 0


def test_unsubscribe_closes_every_subscription_to_the_topic(publisher: Agent, reader: Agent) -> None:
    first, second, other = (reader.subscribe(publisher.rep_endpoint, topic) for topic in ("t", "t", "other"))
    assert reader.unsubscribe(publisher.rep_endpoint, "t") == 2
    assert (first.closed, second.closed, other.closed) == (True, True, False)
    assert reader.unsubscribe(publisher.rep_endpoint, "t") == 0


def test_two_endpoints_of_one_agent_are_one_publisher(publisher: Agent, reader: Agent) -> None:
    numeric = reader.subscribe(publisher.rep_endpoint, "t")
    named = reader.subscribe(publisher.rep_endpoint.replace("127.0.0.1", "localhost"), "t")
    publisher.publish("t", "once")
    assert numeric.recv(TIMEOUT).content == named.recv(TIMEOUT).content == "once"
    numeric.close()
    publisher.publish("t", "twice")
    assert named.recv(TIMEOUT).content == "twice"
    assert reader.counters["notifications"] == 2


def test_a_subscription_may_be_closed_under_a_flood(reader: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes away while a message of it has begun to be read."""
    for _ in range(2):
        with Agent(protocol=Protocol(KEY)) as publisher:
            stop = threading.Event()

            def publish(publisher: Agent = publisher, stop: threading.Event = stop) -> None:
                while not stop.is_set():
                    publisher.publish("t", 0)

            def come_and_go(publisher: Agent = publisher, stop: threading.Event = stop) -> None:
                try:
                    for _ in range(10):
                        with reader.subscribe(publisher.rep_endpoint, "t") as subscription:
                            subscription.recv(TIMEOUT)
                finally:
                    stop.set()

            run_threads(publish, come_and_go)
