"""Many keys of one mailbox: what they share, what one costs, and that nothing of them stays."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import cast

import psutil
import pytest

from pzc import Agent, Protocol, Subscription, mailbox
from pzc.agents.mail import readers
from pzc.agents.mail.places import Place, Places
from pzc.delivery.policies import Policy

from tests.agents.linked import wait_until
from tests.agents.mailing import publisher_and_reader
from tests.agents.notifying import KEY, TIMEOUT, Child

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


class Wanting:
    """What a place asks of its subscription."""

    raw = manual_ack = False
    sink = None
    topic = "t"

    def __init__(self, number: int) -> None:
        self.key = str(number)


@pytest.mark.parametrize("step", ["add", "remove", "wanting", "paused", "takes"])
def test_a_place_more_among_two_thousand_looks_at_no_other(step: str) -> None:
    def one(number: int) -> Place:
        return Place(cast("Subscription", Wanting(number)), False, cast("Future[None]", None))

    def calls(number: int) -> int:
        places = Places()
        made = [one(each) for each in range(number)]
        for place in made:
            places.add(place)
        new, old = one(number), made[number // 2].subscription
        does: dict[str, Callable[[], object]] = {
            "add": lambda: places.add(new),
            "remove": lambda: places.remove(old),
            "wanting": lambda: places.wanting("t", "3"),
            "paused": lambda: places.paused,
            "takes": lambda: places.takes(["t"]),
        }
        with counted() as so_far:
            does[step]()
            return so_far()

    assert calls(2000) == calls(2)


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


def test_closing_all_keys_leaves_nothing() -> None:
    with publisher_and_reader() as (publisher, agent):
        made = subscribed(agent, publisher.rep_endpoint, 300, print)
        gone = [weakref.ref(each) for each in made]
        while made:
            made.pop().close()
        wait_until(lambda: publisher.statistics()["mailboxes"] == [])
        interests = publisher._posting._boxes.interests
        assert (len(interests), interests._topics, interests._shares) == (0, {}, {})
        assert agent.statistics()["subscriptions"] == []
        readers.settle()
        assert not [reader for reader in readers._table.readers if reader.peer.agent_id == publisher.agent_id]
        wait_until(lambda: bool(gc.collect() or 1) and not [each for each in gone if each()])


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


def test_the_largest_bounds_that_a_key_asks_for_hold() -> None:
    policies: list[Policy] = [mailbox(max_messages=5), mailbox(max_messages=50), mailbox(max_messages=20)]
    with publisher_and_reader() as (publisher, agent):
        made = [
            agent.subscribe(publisher.rep_endpoint, "t", policy=policy, key=str(number))
            for number, policy in enumerate(policies)
        ]
        box = next(iter(publisher._posting._boxes._boxes.values()))
        wait_until(lambda: box.mailbox.policy.bound == 50)
        assert [each.policy.bound for each in made] == [5, 50, 20]
