"""Mailboxes over sockets: complete, in order, once; and every loss is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pzc import (
    Agent,
    CallTimeout,
    Notification,
    Policy,
    PolicyRefused,
    Protocol,
    block,
    drop,
    latest,
    mailbox,
)

from tests.contract.acceptance import acceptance
from tests.contract.rigs.children import Child
from tests.contract.rigs.mailing import (
    ReaderProcess,
    delivered,
    publisher_and_reader,
)
from tests.contract.rigs.pairs import OUTSIDE, Publishing, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, Inbox, balance, in_place_of


@pytest.fixture(params=OUTSIDE, autouse=True)
def _each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", request.param)


def test_ten_thousand_messages_of_another_process_arrive_in_order() -> None:
    inbox = Inbox()
    with Child() as child, Agent(protocol=Protocol(KEY)) as agent:
        subscription = agent.subscribe(child.rep, "t", inbox, policy=mailbox())
        agent.request(child.rep, ["t", 10_000])
        assert inbox.contents(10_000) == list(range(10_000))
        assert (subscription.received, subscription.dropped, subscription.gaps) == (10_000, 0, [])


def test_recv_and_iteration_take_messages_out_too() -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        for number in range(3):
            publisher.publish("t", number)
        assert subscription.recv(TIMEOUT).content == 0
        assert [next(subscription).content, next(subscription).content] == [1, 2]
        wait_until(lambda: delivered(publisher) == 3)


def test_a_message_stays_until_its_callback_returned() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(_: object) -> None:
        entered.set()
        assert leave.wait(TIMEOUT)

    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", slow, policy=mailbox())
        publisher.publish("t", 0)
        assert entered.wait(TIMEOUT)
        assert [each["unacknowledged"] for each in publisher.statistics()["mailboxes"]] == [1]
        leave.set()
        wait_until(lambda: delivered(publisher) == 1)


def test_large_arrays_arrive_whole() -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        for number in range(4):
            publisher.publish("t", np.full(1 << 19, number, "f8"))
        for number in range(4):
            content = subscription.recv(TIMEOUT).content
            assert content.shape == (1 << 19,)
            assert (content == number).all()


def test_all_subscriptions_of_a_process_share_one_mailbox_and_one_content() -> None:
    with publisher_and_reader() as (publisher, agent):
        one = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        two = agent.subscribe(publisher.rep_endpoint, "*", policy=mailbox())
        publisher.publish("t", [1])
        with one.recv_zero_copy(TIMEOUT) as first, two.recv_zero_copy(TIMEOUT) as second:
            assert first.content is second.content
        assert len(publisher.statistics()["mailboxes"]) == 1


def test_four_kinds_of_readers_account_for_every_message() -> None:
    total = 2000
    kept, waited = Inbox(), Inbox()
    with publisher_and_reader() as (publisher, agent):
        made = [
            agent.subscribe(publisher.rep_endpoint, "t", inbox, policy=policy, transport=transport)
            for inbox, policy, transport in (
                (kept, mailbox(), "tcp"),
                (waited, block(), "inproc"),
                (Inbox(), latest(), "unix"),
                (Inbox(), drop(), None),
            )
        ]
        for number in range(total):
            publisher.publish("t", number)
        assert kept.contents(total) == waited.contents(total) == list(range(total))
        wait_until(lambda: [balance(each) for each in made] == [total] * 4)


def test_a_key_gets_its_own_messages_only() -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox(), key="a")
        for key in ("a", "b", None, "a"):
            publisher.publish("t", key, key=key)
        assert [subscription.recv(TIMEOUT).key for _ in range(2)] == ["a", "a"]
        assert publisher.statistics()["mailboxes"][0]["delivered"] <= 2
        assert subscription.pending == 0


def test_a_killed_reader_goes_on_where_it_was() -> None:
    total = 3000
    with Agent(protocol=Protocol(KEY)) as publisher:
        with ReaderProcess(publisher.rep_endpoint, "archive", "t", "u").wait_ready() as first:
            for number in range(total // 2):
                publisher.publish("t", number)
                publisher.publish("u", number)
            first.wait(lambda: len(first.found) > 100)
            first.kill()
        for number in range(total // 2, total):
            publisher.publish("t", number)
            publisher.publish("u", number)
        done = delivered(publisher)
        with ReaderProcess(publisher.rep_endpoint, "archive", "t", "u") as second:
            second.wait(lambda: len(second.found) == 2 * total - done)
            wait_until(lambda: delivered(publisher) == 2 * total)
        for topic in ("t", "u"):
            before = [content for name, content in first.found if name == topic]
            after = [content for name, content in second.found if name == topic]
            assert after == list(range(after[0], total))
            assert before == list(range(len(before)))
            assert after[0] <= len(before)


def test_an_agent_that_stops_leaves_its_named_mailbox_to_the_next_one() -> None:
    with publisher_and_reader() as (publisher, agent):
        kept = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox(name="archive"))
        publisher.publish("t", 0)
        publisher.publish("t", 1)
        assert kept.recv(TIMEOUT).content == 0
        agent.stop()
        publisher.publish("t", 2)
        with Agent(protocol=Protocol(KEY)) as other:
            again = other.subscribe(publisher.rep_endpoint, "t", policy=mailbox(name="archive"))
            assert [again.recv(TIMEOUT).content for _ in range(2)] == [1, 2]


def test_what_a_named_mailbox_kept_waits_for_the_subscription_that_wants_it() -> None:
    policy = mailbox(name="archive")
    with publisher_and_reader() as (publisher, agent):
        for topic in ("t", "u"):
            agent.subscribe(publisher.rep_endpoint, topic, policy=policy)
        agent.stop()
        for number in range(3):
            publisher.publish("u", number)
            publisher.publish("t", number)
        with Agent(protocol=Protocol(KEY)) as other:
            first = other.subscribe(publisher.rep_endpoint, "t", policy=policy)
            assert [first.recv(TIMEOUT).content for _ in range(3)] == [0, 1, 2]
            second = other.subscribe(publisher.rep_endpoint, "u", policy=policy)
            assert [second.recv(TIMEOUT).content for _ in range(3)] == [0, 1, 2]


def test_close_ends_the_mailbox() -> None:
    with publisher_and_reader() as (publisher, agent):
        for name in (None, "archive"):
            subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox(name=name))
            subscription.close()
            wait_until(lambda: publisher.statistics()["mailboxes"] == [])


def test_a_named_mailbox_that_another_process_takes_is_lost() -> None:
    with publisher_and_reader() as (publisher, agent):
        first = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox(name="archive"))
        lost = threading.Event()
        reasons = list[str]()
        first.on_lost = lambda reason: (reasons.append(reason), lost.set())
        with ReaderProcess(publisher.rep_endpoint, "archive", "t").wait_ready() as second:
            assert lost.wait(TIMEOUT)
            assert "'archive'" in reasons[0]
            assert "is read by another process" in reasons[0]
            assert first.closed
            publisher.publish("t", 0)
            second.wait(lambda: second.found == [("t", 0)])


@acceptance("R4")
def test_a_restarted_publisher_is_one_gap() -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        first = Agent(protocol=Protocol(KEY))
        subscription = agent.subscribe(first.rep_endpoint, "t", policy=mailbox())
        first.publish("t", "before")
        assert subscription.recv(TIMEOUT).content == "before"
        endpoint = first.rep_endpoint
        first.stop()
        with in_place_of(first, Agent, endpoint, protocol=Protocol(KEY)) as second:
            assert second.wait_for_subscribers("t", 1, TIMEOUT)
            second.publish("t", "after")
            again = subscription.recv(TIMEOUT)
            assert (again.content, again.sequence, again.publisher) == ("after", 1, second.agent_id)
            assert [(gap.restarted, gap.epoch) for gap in subscription.gaps] == [(True, second.epoch)]


def test_evicted_messages_are_told() -> None:
    entered, leave, seen = threading.Event(), threading.Event(), list[int]()

    def slow(notification: Notification) -> None:
        entered.set()
        assert leave.wait(TIMEOUT)
        seen.append(notification.sequence)

    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", slow, policy=mailbox(max_messages=10))
        publisher.publish("t", 0)
        assert entered.wait(TIMEOUT)
        for number in range(99):
            publisher.publish("t", number)
        leave.set()
        wait_until(lambda: balance(subscription) == 100 and not subscription.pending)
        assert subscription.dropped == sum(gap.count for gap in subscription.gaps) > 0
        assert seen == sorted(set(seen))
        assert seen[-1] == 100


def test_a_publication_waits_for_a_mailbox_that_blocks() -> None:
    with publisher_and_reader() as (publisher, agent):
        policy = mailbox(max_messages=2, when_full="block")
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=policy)
        publishing = Publishing(publisher, "t", range(50))
        assert [subscription.recv(TIMEOUT).content for _ in range(50)] == list(range(50))
        publishing.join(TIMEOUT)
        assert publishing.error is None
        assert subscription.gaps == []


@pytest.mark.usefixtures("quick")
def test_a_silent_publisher_is_lost_once() -> None:
    with Child() as child, Agent(protocol=Protocol(KEY)) as agent:
        subscription = agent.subscribe(child.rep, "t", policy=mailbox())
        reasons: list[str] = []
        told = threading.Event()
        subscription.on_lost = lambda reason: (reasons.append(reason), told.set())
        child.kill()
        assert told.wait(TIMEOUT)
        assert len(reasons) == 1
        assert child.rep in reasons[0]


@pytest.mark.parametrize("about", [{"policies": ["block"]}, {"scope": "host"}])
def test_a_topic_that_is_not_offered_is_refused(about: dict[str, Any]) -> None:
    with publisher_and_reader() as (publisher, agent):
        publisher.advertise("t", **about)
        with pytest.raises(PolicyRefused):
            agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        assert publisher.statistics()["mailboxes"] == []


def test_a_topic_that_stays_here_is_in_no_mailbox_of_all_topics() -> None:
    with publisher_and_reader() as (publisher, agent):
        publisher.advertise("secret", scope="host")
        subscription = agent.subscribe(publisher.rep_endpoint, "*", policy=mailbox())
        publisher.publish("secret", 0)
        publisher.publish("open", 1)
        assert subscription.recv(TIMEOUT).topic == "open"


def test_a_mailbox_that_is_too_large_is_refused() -> None:
    with publisher_and_reader() as (publisher, agent), pytest.raises(PolicyRefused, match="so large"):
        agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox(max_messages=10**9))


@pytest.mark.parametrize(
    "too_large", [mailbox(max_messages=10**9), mailbox(keep=1e9)], ids=["messages", "keep"]
)
def test_a_mailbox_that_is_too_large_leaves_other_subscriptions_as_they_are(too_large: Policy) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        with pytest.raises(PolicyRefused, match="so large"):
            agent.subscribe(publisher.rep_endpoint, "t", policy=too_large)
        publisher.publish("t", 1)
        assert subscription.recv(TIMEOUT).content == 1


def test_a_publication_that_found_no_room_in_time_is_not_published(timings: Callable[..., None]) -> None:
    timings(mail_block=0.1)
    with publisher_and_reader() as (publisher, agent):
        policy = mailbox(max_messages=1, when_full="block")
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=policy)
        assert publisher.publish("t", 0) == 1
        with pytest.raises(CallTimeout, match="nothing was published"):
            publisher.publish("t", 1)
        subscription.recv(TIMEOUT)
        wait_until(lambda: delivered(publisher) == 1)
        assert publisher.publish("t", 2) == 2
