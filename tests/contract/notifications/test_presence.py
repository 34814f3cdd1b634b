from __future__ import annotations

import queue
from collections.abc import Callable

import pytest

from pzc import (
    Agent,
    Gap,
    Protocol,
)

from tests.contract.rigs.listening import Watched
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    Elsewhere,
    Forwarder,
    in_place_of,
)

pytestmark = pytest.mark.usefixtures("broadcast")


def test_a_restart_is_one_gap_however_the_publisher_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host name, too: the reconnection is told by its address."""
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    with Agent(protocol=Protocol(KEY)) as reader:
        first = Elsewhere(protocol=Protocol(KEY))
        rep, pub = first.rep_endpoint, first.pub_endpoint
        named = pub.replace("127.0.0.1", "localhost")
        first.advertised = named
        subscription = reader.subscribe(rep, "t")
        subscription.on_gap = gaps.put
        first.publish("t", 1)
        assert subscription.recv(TIMEOUT).content == 1
        first.stop()
        with in_place_of(first, Elsewhere, rep, pub, protocol=Protocol(KEY)) as second:
            second.advertised = named
            assert second.wait_for_subscribers("t", 1, TIMEOUT)
            gap = gaps.get(timeout=TIMEOUT)
            assert gap == Gap(second.epoch, 0, 0, restarted=True)
            second.publish("t", 2)
            assert subscription.recv(TIMEOUT).content == 2
            assert subscription.publisher == second.agent_id
            assert reader.unsubscribe(rep, "t") == 1
        assert subscription.gaps == [gap]


def test_a_subscription_made_after_a_restart_and_one_from_before_both_receive(reader: Agent) -> None:
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    first = Agent(protocol=Protocol(KEY))
    rep, pub = first.rep_endpoint, first.pub_endpoint
    before = reader.subscribe(rep, "t")
    before.on_gap = gaps.put
    first.stop()
    with in_place_of(first, Agent, rep, pub, protocol=Protocol(KEY)) as second:
        assert gaps.get(timeout=TIMEOUT).restarted
        after = reader.subscribe(rep, "t")
        second.publish("t", "both")
        assert before.recv(TIMEOUT).content == after.recv(TIMEOUT).content == "both"


def test_lost_is_told_once_and_only_to_its_subscriptions(
    publisher: Agent, reader: Agent, timings: Callable[..., None]
) -> None:
    timings(silence=0.05)
    told: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    with Agent(protocol=Protocol(KEY)) as doomed:
        for agent, topic in ((doomed, "a"), (doomed, "b"), (publisher, "c")):
            subscription = reader.subscribe(agent.rep_endpoint, topic)
            subscription.on_lost = lambda reason, topic=topic: told.put((topic, reason))
    reason = f"{doomed.rep_endpoint} has been unreachable for 0.05 s"
    assert sorted(told.get(timeout=TIMEOUT) for _ in range(2)) == [("a", reason), ("b", reason)]
    publisher.publish("c", "here")
    assert subscription.recv(TIMEOUT).content == "here"
    assert told.empty()


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
            assert (subscription.gaps, told) == ([Gap(publisher.epoch, 2, 2)], [])
            subscription.close()


def test_subscriptions_follow_a_publisher_to_another_pub_endpoint(reader: Agent) -> None:
    first = Agent(protocol=Protocol(KEY))
    rep = first.rep_endpoint
    subscriptions = [reader.subscribe(rep, topic) for topic in ("t", "t", "*")]
    first.stop()
    with in_place_of(first, Agent, rep, protocol=Protocol(KEY)) as second:
        assert second.pub_endpoint != first.pub_endpoint
        wait_until(lambda: all(each.gaps for each in subscriptions))
        assert second.wait_for_subscribers("t", 1, TIMEOUT)
        second.publish("t", "here")
        assert [each.recv(TIMEOUT).content for each in subscriptions] == ["here"] * 3
        for each in subscriptions:
            each.close()
