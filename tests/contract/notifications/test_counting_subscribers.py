"""An agent counts once among the subscribers of a topic, however it listens."""

from __future__ import annotations

import pytest

from pzc import Agent, Policy, Protocol, drop, mailbox

from tests.contract.rigs.pairs import LONG, WAYS, pair, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT

every_way = pytest.mark.parametrize("way", WAYS)


def _count(publisher: Agent, topic: str = "t") -> int:
    return publisher.statistics()["topics"].get(topic, {}).get("subscribers", 0)


def _publish_once(publisher: Agent) -> None:
    publisher.publish("t", 0)


@every_way
def test_a_link_and_a_broadcast_of_one_agent_are_one_subscriber(way: str) -> None:
    with pair() as (publisher, reader):
        _publish_once(publisher)
        linked = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        heard = reader.subscribe(publisher.rep_endpoint, "t", policy=drop(), transport="tcp")
        assert _count(publisher) == 1
        assert not publisher.wait_for_subscribers("t", 2, 0)
        linked.close()
        wait_until(lambda: not publisher.statistics()["links"]["links"])
        assert _count(publisher) == 1
        heard.close()
        wait_until(lambda: _count(publisher) == 0)


@every_way
def test_agents_that_share_a_link_are_counted_each(way: str) -> None:
    with pair() as (publisher, reader), Agent(protocol=Protocol(KEY)) as another:
        _publish_once(publisher)
        for agent in (reader, another):
            agent.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        assert publisher.wait_for_subscribers("t", 2, TIMEOUT)
        assert _count(publisher) == 2
        assert len(publisher.statistics()["links"]["links"]) == 1
        reader.stop()
        wait_until(lambda: _count(publisher) == 1)


@every_way
def test_subscriptions_of_one_agent_are_one_subscriber(way: str) -> None:
    policies: tuple[Policy, ...] = (LONG, LONG, drop(5))
    with pair() as (publisher, reader):
        _publish_once(publisher)
        for policy in policies:
            reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=way)
        assert _count(publisher) == 1


@every_way
def test_a_link_to_all_topics_and_one_to_this_are_one_subscriber(way: str) -> None:
    with pair() as (publisher, reader):
        _publish_once(publisher)
        for topic in ("t", "*"):
            reader.subscribe(publisher.rep_endpoint, topic, policy=LONG, transport=way)
        assert _count(publisher) == 1


def test_an_agent_with_a_link_and_one_without_are_two() -> None:
    with pair() as (publisher, reader), Agent(protocol=Protocol(KEY)) as asking:
        _publish_once(publisher)
        reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        asking.subscribe(publisher.rep_endpoint, "t")
        assert publisher.wait_for_subscribers("t", 2, TIMEOUT)


@every_way
def test_a_mailbox_a_link_and_a_broadcast_of_one_agent_are_one_subscriber(way: str) -> None:
    with pair() as (publisher, reader):
        _publish_once(publisher)
        kept = reader.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        reader.subscribe(publisher.rep_endpoint, "t", policy=drop())
        assert _count(publisher) == 1
        assert not publisher.wait_for_subscribers("t", 2, 0)
        kept.close()
        wait_until(lambda: not publisher.statistics()["mailboxes"])
        assert _count(publisher) == 1


def test_agents_that_share_a_mailbox_are_counted_each() -> None:
    with pair() as (publisher, reader), Agent(protocol=Protocol(KEY)) as another:
        _publish_once(publisher)
        for agent in (reader, another):
            agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        assert publisher.wait_for_subscribers("t", 2, TIMEOUT)
        assert _count(publisher) == 2
        assert len(publisher.statistics()["mailboxes"]) == 1
        reader.stop()
        wait_until(lambda: _count(publisher) == 1)


def test_an_agent_that_reads_keys_and_all_topics_out_of_its_mailboxes_is_one_subscriber() -> None:
    with pair() as (publisher, reader):
        _publish_once(publisher)
        for topic, key, policy in (
            ("t", "a", mailbox()),
            ("t", "b", mailbox()),
            ("*", None, mailbox(name="n")),
        ):
            reader.subscribe(publisher.rep_endpoint, topic, key=key, policy=policy)
        assert len(publisher.statistics()["mailboxes"]) == 2
        assert _count(publisher) == 1
