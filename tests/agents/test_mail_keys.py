"""Many keys of one mailbox: what they share, what one costs, and that nothing of them stays."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import cast

import pytest

from pzc import Agent, Policy, PolicyRefused, Protocol, Subscription, mailbox
from pzc.agents.mail import readers
from pzc.agents.mail.place import Place
from pzc.agents.mail.places import Places

from tests.agents.inside import forget_silent_readers
from tests.contract.rigs.mailing import delivered, publisher_and_reader
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, in_place_of

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


# --- one subscription to many keys ---------------------------------------------------------------------


MANY = [f"key-{number}" for number in range(50)]


@pytest.fixture
def small_batches(timings: Callable[..., None]) -> int:
    """Of so many commands."""
    timings(mail_commands=8)
    return 8


def in_mailboxes(publisher: Agent) -> list[int]:
    return [each["subscriptions"] for each in publisher.statistics()["mailboxes"]]


def taken(subscription: Subscription, number: int) -> list[str]:
    return [subscription.recv(TIMEOUT).key for _ in range(number)]


def test_thousands_of_keys_are_subscribed_in_one_round_trip() -> None:
    with publisher_and_reader() as (publisher, agent):
        asked = list[object]()
        answer = publisher._posting.words["mailbox"]
        publisher._control.words["mailbox"] = lambda *args: (asked.append(args[1]), answer(*args))
        subscription = agent.subscribe(
            publisher.rep_endpoint, "t", policy=POLICY, key=[f"key-{number}" for number in range(5000)]
        )
        assert len([content for content in asked if "batch" in cast("dict[str, object]", content)]) == 1
        assert in_mailboxes(publisher) == [5000]
        publisher.publish("t", 0, key="key-4999")
        assert taken(subscription, 1) == ["key-4999"]


def test_more_keys_than_a_batch_holds_are_all_there_when_it_returns(small_batches: int) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY)
        assert in_mailboxes(publisher) == [len(MANY)]
        for key in MANY:
            publisher.publish("t", 0, key=key)
        assert taken(subscription, len(MANY)) == MANY


def test_what_is_published_between_the_batches_does_not_count(small_batches: int) -> None:
    """A subscription begins when all its keys are there: what one key got before that is not its own."""
    with publisher_and_reader() as (publisher, agent):
        publisher._control.words["mailbox"] = lambda *args: (
            publisher.publish("t", "early", key=MANY[0]),
            publisher._posting.words["mailbox"](*args),
        )
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY)
        last = publisher.publish("t", "first", key=MANY[0])
        first = subscription.recv(TIMEOUT)
        assert (first.content, first.sequence, subscription.gaps) == ("first", last, [])
        wait_until(lambda: [box["waiting"] for box in publisher.statistics()["mailboxes"]] == [0])


def test_subscriptions_that_share_keys_each_get_them(small_batches: int) -> None:
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


def test_a_restarted_publisher_is_one_gap_for_all_keys(small_batches: int) -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        first = Agent(protocol=Protocol(KEY))
        subscription = agent.subscribe(first.rep_endpoint, "t", policy=POLICY, key=MANY)
        endpoint = first.rep_endpoint
        first.stop()
        with in_place_of(first, Agent, endpoint, protocol=Protocol(KEY)) as second:
            wait_until(lambda: in_mailboxes(second) == [len(MANY)])
            wait_until(lambda: not subscription.reader or not subscription.reader.places()[0].held)
            for key in MANY:
                second.publish("t", 0, key=key)
            assert taken(subscription, len(MANY)) == MANY
            assert [(gap.restarted, gap.epoch) for gap in subscription.gaps] == [(True, second.epoch)]


def test_a_mailbox_that_was_removed_gets_all_keys_again(small_batches: int) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY)
        publisher.publish("t", 0, key=MANY[3])
        assert taken(subscription, 1) == [MANY[3]]
        with publisher._outlets.lock:
            forget_silent_readers(publisher)
            publisher.publish("t", 1, key=MANY[4])
        wait_until(lambda: bool(subscription.gaps))
        for key in MANY:
            publisher.publish("t", 2, key=key)
        assert taken(subscription, len(MANY)) == MANY
        assert [(gap.first, gap.last) for gap in subscription.gaps] == [(2, 2)]


def test_whoever_resumes_a_named_mailbox_gets_all_its_keys(small_batches: int) -> None:
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


def test_closing_a_subscription_of_many_keys_leaves_nothing() -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", print, policy=POLICY, key=MANY)
        gone = weakref.ref(subscription)
        subscription.close()
        del subscription
        wait_until(lambda: publisher.statistics()["mailboxes"] == [])
        interests = publisher._posting._boxes.interests
        assert (len(interests), interests._topics, interests._shares) == (0, {}, {})
        readers.settle()
        wait_until(lambda: bool(gc.collect() or 1) and gone() is None)


def test_more_keys_than_a_mailbox_may_have_leave_other_subscriptions_as_they_are(
    timings: Callable[..., None],
) -> None:
    timings(mail_subscriptions=20)
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY[:10])
        with pytest.raises(PolicyRefused, match="at most 20"):
            agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY)
        publisher.publish("t", 0, key=MANY[9])
        assert taken(subscription, 1) == [MANY[9]]
        assert in_mailboxes(publisher) == [10]
