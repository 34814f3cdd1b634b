"""Many keys of one mailbox: what they share, what one costs, and that nothing of them stays."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from pzc import Agent, Notification, Protocol, Subscription, mailbox

from tests.contract.acceptance import acceptance
from tests.contract.rigs.mailing import publisher_and_reader
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, Child

POLICY = mailbox()


def subscribed(
    agent: Agent, endpoint: str, number: int, callback: Callable[[object], object] | None = None
) -> list[Subscription]:
    return [
        agent.subscribe(endpoint, "t", callback, policy=POLICY, key=f"key-{each}") for each in range(number)
    ]


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """How many Python functions this thread calls meanwhile, each turn of a generator included."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)


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
        alone = min(calls() for _ in range(3))
        made = subscribed(agent, publisher.rep_endpoint, 1000)
        assert min(calls() for _ in range(3)) <= alone + 5
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
        policy = mailbox(max_messages=10)
        subscription = agent.subscribe(publisher.rep_endpoint, "t", slow, policy=policy, key=MANY)
        publisher.publish("t", 0, key=MANY[0])
        assert entered.wait(TIMEOUT)
        for _ in range(3):
            for key in MANY:
                publisher.publish("t", 0, key=key)
        leave.set()
        wait_until(lambda: subscription.received + subscription.dropped == 151 and not subscription.pending)
        assert subscription.dropped == sum(gap.count for gap in subscription.gaps) > 0
