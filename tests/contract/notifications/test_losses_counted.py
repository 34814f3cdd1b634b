"""Notifications: what is lost is counted once, by whom it was lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pzc import Agent, block
from pzc.testing import Timings

from tests.contract.rigs.pairs import read, wait_until
from tests.contract.rigs.peers import TIMEOUT
from tests.contract.rigs.relay import Frames, Relay


def close_link(publisher: Agent, reader: Agent, topic: str, then: str = "") -> None:
    """Let the publisher close the link of a reader, by a subscription that is never done with anything.

    It publishes on the topic ``then`` before the reader can be back.
    """
    policy = block(timeout=0.0, slots=1, on_timeout="close")
    closing = reader.subscribe(publisher.rep_endpoint, topic, policy=policy, transport="unix")
    for number in range(3):
        publisher.publish(topic, number)
    if then:
        publisher.publish(then, "right behind")
    wait_until(lambda: closing.closed)


def test_what_arrived_on_another_topic_is_no_loss_after_a_link_was_closed_twice(
    agents: tuple[Agent, Agent],
) -> None:
    publisher, reader = agents
    one, other = (
        reader.subscribe(publisher.rep_endpoint, topic, policy=block(), transport="unix")
        for topic in ("one", "other")
    )
    for number, topic in enumerate(("first", "second")):
        close_link(publisher, reader, topic)
        assert publisher.wait_for_subscribers("other", 1, TIMEOUT)
        for content in range(5):
            publisher.publish("other", content)
        wait_until(lambda number=number: other.pending + other.dropped == 5 * (number + 1))
    close_link(publisher, reader, "third")
    assert publisher.wait_for_subscribers("one", 1, TIMEOUT)
    publisher.publish("one", 7)
    assert one.recv(TIMEOUT).content == 7
    assert one.gaps == []


def test_a_topic_that_begins_while_a_link_is_closed_is_counted_by_who_wants_all(
    agents: tuple[Agent, Agent],
) -> None:
    publisher, reader = agents
    policy = block(on_timeout="drop")  # which leaves it to the other one to close the link
    every = reader.subscribe(publisher.rep_endpoint, "*", policy=policy, transport="unix")
    for attempt in range(5):  # the link may be open again before the new topic begins
        close_link(publisher, reader, f"closing {attempt}", f"new {attempt}")
        assert publisher.wait_for_subscribers("end", 1, TIMEOUT)
        publisher.publish("end", attempt)
        while every.recv(TIMEOUT).topic != "end":
            pass
    topics = publisher.statistics()["topics"].values()
    assert every.received + every.dropped == sum(topic["published"] for topic in topics)


def test_of_more_than_ten_thousand_that_were_held_only_the_rest_is_lost(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    policy, number = block(slots=300, timeout=TIMEOUT), 150
    with (
        Timings(early_notifications=100),
        Relay(publisher.rep_endpoint) as relay,
        ThreadPoolExecutor() as pool,
    ):
        publisher.advertise("t", buffers=300)
        first = reader.subscribe(relay.endpoint, "t", policy=policy, transport="tcp")
        relay.loses_answer = tells_lasts
        begun = pool.submit(reader.subscribe, relay.endpoint, "t", policy=policy, transport="tcp")
        assert relay.lost.wait(TIMEOUT)
        for content in range(number):
            publisher.publish("t", content)
        assert read(first, number) == list(range(number))
        relay.release()
        second = begun.result(TIMEOUT)
        wait_until(lambda: second.pending + second.dropped >= number)
        assert second.pending + second.dropped == number


APPLIED = 4
"""Kind of the message that confirms interests."""


def tells_lasts(frames: Frames) -> bool:
    """Whether an answer confirms subscriptions of a link."""
    return b"link" in frames and frames[frames.index(b"link") + 1][1] == APPLIED
