"""Mailboxes that give the five frames of each message, and keep each until it was acknowledged by hand."""

from __future__ import annotations

import re
import threading

import pytest

from pzc import Agent, ConfigError, PolicyRefused, Protocol, acknowledge, drop, mailbox

from tests.contract.rigs.mailing import NAMED, Kept, delivered, publisher_and_reader
from tests.contract.rigs.pairs import OUTSIDE, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, Inbox


@pytest.fixture(params=OUTSIDE, autouse=True)
def _each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", request.param)


def test_other_mailboxes_get_no_frames_and_are_charged_for_none() -> None:
    kept, inbox = Kept(), Inbox()
    with publisher_and_reader() as (publisher, agent), Agent(protocol=Protocol(KEY)) as other:
        agent.subscribe(publisher.rep_endpoint, "t", kept, policy=NAMED, raw=True, manual_ack=True)
        other.subscribe(publisher.rep_endpoint, "t", inbox, policy=mailbox(name="other"), manual_ack=True)
        publisher.publish("t", 1)
        kept.wait(1)
        inbox.contents(1)
        sizes = {each["reader"]: each["bytes"] for each in publisher.statistics()["mailboxes"]}
        assert sizes["archive"] >= sum(map(len, kept.found[0].frames))
        assert sizes["other"] == kept.found[0].size


def test_a_publisher_that_keeps_no_mailboxes_refuses_raw_ones() -> None:
    with publisher_and_reader() as (publisher, agent):
        publisher.advertise("t", policies=["drop"])
        with pytest.raises(PolicyRefused, match="not offered"):
            agent.subscribe(publisher.rep_endpoint, "t", policy=NAMED, raw=True)


# --- acknowledging -----------------------------------------------------------------------------------------


def test_a_message_stays_until_it_was_acknowledged() -> None:
    kept = Kept()
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", kept, policy=NAMED, manual_ack=True)
        for number in range(4):
            publisher.publish("t", number)
        first, second, third, _ = kept.wait(4)
        first.acknowledge()
        first.acknowledge()
        wait_until(lambda: delivered(publisher) == 1)
        third.acknowledge()  # behind one that is not
        second.acknowledge()
        wait_until(lambda: delivered(publisher) == 3)


def test_many_are_acknowledged_at_once_in_any_order_by_any_thread() -> None:
    kept = Kept()
    with publisher_and_reader() as (publisher, agent), Agent(protocol=Protocol(KEY)) as second:
        for each in (publisher, second):
            agent.subscribe(each.rep_endpoint, "t", kept, policy=NAMED, raw=True, manual_ack=True)
            for number in range(500):
                each.publish("t", number)
        found = kept.wait(1000)
        thread = threading.Thread(target=acknowledge, args=(reversed(found),))
        thread.start()
        acknowledge(found)
        thread.join(TIMEOUT)
        wait_until(lambda: delivered(publisher) == delivered(second) == 500)


def test_what_was_not_acknowledged_comes_again_to_the_next_process_with_the_same_frames() -> None:
    before, after = Kept(), Kept()
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", before, policy=NAMED, raw=True, manual_ack=True)
        for number in range(6):
            publisher.publish("t", number)
        acknowledge(before.wait(6)[:2])
        agent.stop()
        with Agent(protocol=Protocol(KEY)) as second:
            second.subscribe(publisher.rep_endpoint, "t", after, policy=NAMED, raw=True, manual_ack=True)
            assert [each.frames for each in after.wait(4)] == [each.frames for each in before.found[2:]]


def test_an_acknowledgement_after_the_end_changes_nothing() -> None:
    kept = Kept()
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", kept, policy=NAMED, manual_ack=True)
        publisher.publish("t", 1)
        (only,) = kept.wait(1)
        agent.stop()
        only.acknowledge()
        assert publisher.statistics()["mailboxes"][0]["waiting"] == 1


def test_a_reader_that_acknowledges_nothing_asks_for_no_more_than_its_bound() -> None:
    kept = Kept()
    with publisher_and_reader() as (publisher, agent):
        policy = mailbox(max_messages=10, when_full="block", name="archive")
        agent.subscribe(publisher.rep_endpoint, "t", kept, policy=policy, manual_ack=True)
        for number in range(10):
            publisher.publish("t", number)
        acknowledge(kept.wait(10)[:5])
        for number in range(5):
            publisher.publish("t", number)
        assert len(kept.wait(15)) == 15


def test_what_cannot_be_decoded_or_is_not_wanted_waits_for_no_acknowledgement() -> None:
    with Agent(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY, "json")) as agent:
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=NAMED, manual_ack=True)
        publisher.publish("t", re.compile("x"))  # as a pickle
        wait_until(lambda: len(subscription.gaps) == 1 or subscription.pending == 1)
        with pytest.raises(TimeoutError):
            subscription.recv(0.2)
        wait_until(lambda: delivered(publisher) == 1)


def test_a_subscription_of_the_usual_kind_does_not_wait_for_another_ones_acknowledgement() -> None:
    kept, inbox = Kept(), Inbox()
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", kept, policy=NAMED, manual_ack=True)
        agent.subscribe(publisher.rep_endpoint, "t", inbox, policy=NAMED)
        publisher.publish("t", 1)
        assert inbox.contents(1) == [1]
        assert publisher.statistics()["mailboxes"][0]["waiting"] == 1
        acknowledge(kept.wait(1))
        wait_until(lambda: delivered(publisher) == 1)


@pytest.mark.parametrize("publisher", ["tcp://127.0.0.1:1", "cam*"])
def test_only_mailboxes_are_acknowledged_by_hand(publisher: str) -> None:
    with Agent(protocol=Protocol(KEY)) as agent, pytest.raises(ConfigError, match="manual_ack needs"):
        agent.subscribe(publisher, "t", policy=drop(3), manual_ack=True)
