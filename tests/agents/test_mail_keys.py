"""Many keys of one mailbox: what they share, what one costs, and that nothing of them stays."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import cast

import pytest

from pzc import Policy, Subscription, mailbox
from pzc.agents.notifications.mail import readers
from pzc.agents.notifications.mail.place import Place
from pzc.agents.notifications.mail.places import Places

from tests.agents.inside import forget_silent_readers
from tests.contract.rigs import mailing
from tests.contract.rigs.mailing import POLICY, counted, in_mailboxes, publisher_and_reader, subscribed, taken
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT

small_batches = mailing.small_batches


class Wanting:
    """What a place asks of its subscription."""

    raw = manual_ack = restarted = False
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
        interests = publisher._publishing.mailboxes._boxes.interests
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
        box = next(iter(publisher._publishing.mailboxes._boxes._boxes.values()))
        wait_until(lambda: box.mailbox.policy.bound == 50)
        assert [each.policy.bound for each in made] == [5, 50, 20]


# --- one subscription to many keys ---------------------------------------------------------------------


MANY = [f"key-{number}" for number in range(50)]


def test_thousands_of_keys_are_subscribed_in_one_round_trip() -> None:
    with publisher_and_reader() as (publisher, agent):
        asked = list[object]()
        answer = publisher._publishing.mailboxes.words["mailbox"]
        publisher._control.words["mailbox"] = lambda *args: (asked.append(args[1]), answer(*args))
        subscription = agent.subscribe(
            publisher.rep_endpoint, "t", policy=POLICY, key=[f"key-{number}" for number in range(5000)]
        )
        assert len([content for content in asked if "batch" in cast("dict[str, object]", content)]) == 1
        assert in_mailboxes(publisher) == [5000]
        publisher.publish("t", 0, key="key-4999")
        assert taken(subscription, 1) == ["key-4999"]


def test_what_is_published_between_the_batches_does_not_count(small_batches: int) -> None:
    """A subscription begins when all its keys are there: what one key got before that is not its own."""
    with publisher_and_reader() as (publisher, agent):
        publisher._control.words["mailbox"] = lambda *args: (
            publisher.publish("t", "early", key=MANY[0]),
            publisher._publishing.mailboxes.words["mailbox"](*args),
        )
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY)
        last = publisher.publish("t", "first", key=MANY[0])
        first = subscription.recv(TIMEOUT)
        assert (first.content, first.sequence, subscription.gaps) == ("first", last, [])
        wait_until(lambda: [box["waiting"] for box in publisher.statistics()["mailboxes"]] == [0])


def test_a_mailbox_that_was_removed_gets_all_keys_again(small_batches: int) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY)
        publisher.publish("t", 0, key=MANY[3])
        assert taken(subscription, 1) == [MANY[3]]
        with publisher._publishing.outlets.lock:
            forget_silent_readers(publisher)
            publisher.publish("t", 1, key=MANY[4])
        wait_until(lambda: bool(subscription.gaps))
        for key in MANY:
            publisher.publish("t", 2, key=key)
        assert taken(subscription, len(MANY)) == MANY
        assert [(gap.first, gap.last) for gap in subscription.gaps] == [(2, 2)]


def test_closing_a_subscription_of_many_keys_leaves_nothing() -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", print, policy=POLICY, key=MANY)
        gone = weakref.ref(subscription)
        subscription.close()
        del subscription
        wait_until(lambda: publisher.statistics()["mailboxes"] == [])
        interests = publisher._publishing.mailboxes._boxes.interests
        assert (len(interests), interests._topics, interests._shares) == (0, {}, {})
        readers.settle()
        wait_until(lambda: bool(gc.collect() or 1) and gone() is None)
