"""Many keys of one mailbox: what they share, what one costs, and that nothing of them stays."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from functools import partial
from random import Random

import psutil
import pytest

from pzc import Agent, Notification, Protocol, Subscription, mailbox
from pzc.testing import Timings

from tests.contract.acceptance import acceptance
from tests.contract.rigs.children import Child
from tests.contract.rigs.mailing import (
    POLICY,
    Faulty,
    counted,
    delivered,
    in_mailboxes,
    publisher_and_reader,
    subscribed,
    taken,
)
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, in_place_of, run_threads

THREADS = 10


@acceptance("R1")
def test_two_thousand_keys_take_two_connections() -> None:
    with Child() as child, Agent(protocol=Protocol(KEY), discovery=False) as agent:
        port = int(child.rep.rpartition(":")[2])
        subscribed(agent, child.rep, 2000)
        connections = [each for each in psutil.Process().net_connections("tcp") if each.raddr]
        assert 1 <= sum(each.raddr.port == port for each in connections) <= 2


def test_a_key_takes_less_than_a_kilobyte_and_a_half() -> None:
    number = 500
    with Child() as child, Agent(protocol=Protocol(KEY), discovery=False) as agent:
        first = subscribed(agent, child.rep, 1)
        gc.collect()
        tracemalloc.start(1)
        try:
            made = subscribed(agent, child.rep, number)
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 1500 * number
        finally:
            tracemalloc.stop()
        assert len(made) + len(first) == number + 1


def test_publishing_to_one_key_calls_no_more_functions_with_a_thousand_others() -> None:
    def calls() -> int:
        with counted() as so_far:
            publisher.publish("t", 0, key="key-0")
            return so_far()

    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key="key-0")
        calls()
        assert subscription.recv(TIMEOUT)
        alone = max(calls() for _ in range(3))  # of those that find a poll that waits, too
        made = subscribed(agent, publisher.rep_endpoint, 1000)
        assert min(calls() for _ in range(3)) <= alone + 20  # with a poll that waits or without
        assert len(made) == 1000


def test_a_message_goes_to_the_subscriptions_of_its_key_only() -> None:
    found, came = list[object](), threading.Event()

    def take(notification: object) -> None:
        found.append(notification)
        came.set()

    with publisher_and_reader() as (publisher, agent):
        made = subscribed(agent, publisher.rep_endpoint, 300, take)
        publisher.publish("t", 7, key="key-123")
        assert came.wait(TIMEOUT)
        wait_until(lambda: made[123].received == 1)
        assert sum(each.received for each in made) == len(found) == 1


def test_keys_that_are_closed_leave_the_others_what_they_had() -> None:
    with publisher_and_reader() as (publisher, agent):
        made = subscribed(agent, publisher.rep_endpoint, 200)
        for each in made[::2]:
            each.close()
        wait_until(lambda: [b["subscriptions"] for b in publisher.statistics()["mailboxes"]] == [100])
        for number in (1, 2, 199):
            publisher.publish("t", number, key=f"key-{number}")
        assert [made[number].recv(TIMEOUT).content for number in (1, 199)] == [1, 199]
        assert publisher.statistics()["topics"]["t"]["subscribers"] == 1


# --- one subscription to many keys ---------------------------------------------------------------------


MANY = [f"key-{number}" for number in range(50)]


def test_a_key_of_many_takes_less_than_250_bytes() -> None:
    number = 2000
    with Child() as child, Agent(protocol=Protocol(KEY), discovery=False) as agent:
        made = [agent.subscribe(child.rep, "t", policy=POLICY, key=["first", "second"])]
        keys = [f"key-{each}" for each in range(number)]
        gc.collect()
        tracemalloc.start(1)
        try:
            made.append(agent.subscribe(child.rep, "t", policy=POLICY, key=keys))
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 250 * number
        finally:
            tracemalloc.stop()


def test_evicted_messages_of_many_keys_are_told_once() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(_: Notification) -> None:
        entered.set()
        assert leave.wait(TIMEOUT)

    with publisher_and_reader() as (publisher, agent):
        policy = mailbox(max_messages=2)  # of each key
        subscription = agent.subscribe(publisher.rep_endpoint, "t", slow, policy=policy, key=MANY)
        publisher.publish("t", 0, key=MANY[0])
        assert entered.wait(TIMEOUT)
        for _ in range(3):
            for key in MANY:
                publisher.publish("t", 0, key=key)
        leave.set()
        wait_until(lambda: subscription.received + subscription.dropped == 151 and not subscription.pending)
        assert subscription.dropped == sum(gap.count for gap in subscription.gaps) > 0


def test_all_keys_of_a_subscription_are_there_when_it_returns() -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY)
        assert in_mailboxes(publisher) == [len(MANY)]
        for key in MANY:
            publisher.publish("t", 0, key=key)
        assert taken(subscription, len(MANY)) == MANY


def test_subscriptions_that_share_keys_each_get_them() -> None:
    with publisher_and_reader() as (publisher, agent):
        wanted: list[str | list[str] | None] = [MANY[:20], MANY[10:30], MANY[15], None]
        made = [agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=key) for key in wanted]
        assert in_mailboxes(publisher) == [31]
        for key in MANY:
            publisher.publish("t", 0, key=key)
        assert [taken(each, number) for each, number in zip(made, (20, 20, 1, 50), strict=True)] == [
            MANY[:20], MANY[10:30], [MANY[15]], MANY,
        ]  # fmt: skip
        made[0].close()
        wait_until(lambda: in_mailboxes(publisher) == [21])
        for key in MANY:
            publisher.publish("t", 1, key=key)
        assert taken(made[1], 20) == MANY[10:30]
        made[3].close()
        made[1].close()
        wait_until(lambda: in_mailboxes(publisher) == [1])
        publisher.publish("t", 2, key=MANY[15])
        assert [notification.content for notification in (made[2].recv(TIMEOUT), made[2].recv(TIMEOUT))] == [
            1,
            2,
        ]


def test_keys_of_all_topics_are_kept_beside_all_topics_and_other_keys() -> None:
    with publisher_and_reader() as (publisher, reader):
        wanted = [None, ["a"], ["b", "c"], [""]]
        made = [reader.subscribe(publisher.rep_endpoint, "*", policy=POLICY, key=key) for key in wanted]
        for key in ("a", "b", "c", None):
            publisher.publish("t", key, key=key)
        assert [taken(each, number) for each, number in zip(made, (4, 1, 2, 1), strict=True)] == [
            ["a", "b", "c", ""], ["a"], ["b", "c"], [""],
        ]  # fmt: skip


def test_a_restarted_publisher_is_one_gap_for_all_keys() -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        first = Agent(protocol=Protocol(KEY))
        subscription = agent.subscribe(first.rep_endpoint, "t", policy=POLICY, key=MANY)
        endpoint = first.rep_endpoint
        first.stop()
        with in_place_of(first, Agent, endpoint, protocol=Protocol(KEY)) as second:
            wait_until(lambda: in_mailboxes(second) == [len(MANY)])
            wait_until(lambda: bool(subscription.gaps))
            for key in MANY:
                second.publish("t", 0, key=key)
            assert taken(subscription, len(MANY)) == MANY
            assert [(gap.restarted, gap.epoch) for gap in subscription.gaps] == [(True, second.epoch)]


def test_whoever_resumes_a_named_mailbox_gets_all_its_keys() -> None:
    policy = mailbox(name="archive")
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", policy=policy, key=MANY)
        agent.stop()
        for key in reversed(MANY):
            publisher.publish("t", 0, key=key)
        with Agent(protocol=Protocol(KEY)) as other:
            again = other.subscribe(publisher.rep_endpoint, "t", policy=policy, key=MANY)
            for key in MANY:
                publisher.publish("t", 1, key=key)
            assert taken(again, 2 * len(MANY)) == [*reversed(MANY), *MANY]
            assert (again.received, again.dropped) == (2 * len(MANY), 0)
            wait_until(lambda: delivered(publisher) == 2 * len(MANY))


@acceptance("R2")
@pytest.mark.parametrize(
    "commands", [200, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
def test_of_many_commands_over_a_way_that_loses_and_repeats_the_last_on_each_key_holds(commands: int) -> None:
    with (
        Timings(mail_hold=0.2, mail_patience=0.1),
        Agent(protocol=Protocol(KEY)) as publisher,
        Faulty(publisher.rep_endpoint, 0.2, 0.2, 7) as faulty,
        Agent(protocol=Protocol(KEY)) as agent,
    ):
        anchor = agent.subscribe(faulty.endpoint, "t", policy=mailbox(), key="anchor")
        faulty.honest = False
        wanted: dict[str, Subscription] = {}

        def command(who: int) -> None:
            random = Random(who)
            for _ in range(commands // THREADS):
                key = f"{who} {random.randrange(50 // THREADS)}"
                if key in wanted:
                    wanted.pop(key).close()
                else:
                    wanted[key] = agent.subscribe(
                        faulty.endpoint, "t", policy=mailbox(), key=key, timeout=TIMEOUT
                    )

        run_threads(*(partial(command, who) for who in range(THREADS)))
        assert faulty.faults > 10
        faulty.honest = True
        wait_until(lambda: in_mailboxes(publisher) == [len(wanted) + 1])
        for who in range(THREADS):
            for number in range(50 // THREADS):
                publisher.publish("t", number, key=f"{who} {number}")
        last = publisher.publish("t", "end", key="anchor")
        assert anchor.recv(TIMEOUT).sequence == last
        for key, subscription in wanted.items():
            assert subscription.recv(TIMEOUT).key == key
            assert subscription.gaps == []
