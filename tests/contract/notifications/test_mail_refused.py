"""A mailbox that is full of topics and keys: what it refuses, and that nothing else feels it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from pzc import Agent, PolicyRefused, Protocol, Refused, SubscriptionClosed, mailbox
from pzc.testing import Timings

from tests.contract.rigs.mailing import POLICY, Faulty, in_mailboxes, taken
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, in_place_of

ROOM = 3
FULL = "has as many topics and keys as it may have"
KEYS = [f"key-{number}" for number in range(ROOM)]


def small(*endpoints: str) -> Agent:
    """A publisher whose mailboxes have room for so many topics and keys."""
    with Timings(mail_subscriptions=ROOM):
        return Agent(*endpoints, protocol=Protocol(KEY))


@contextmanager
def small_publisher_and_reader() -> Iterator[tuple[Agent, Agent]]:
    with small() as publisher, Agent(protocol=Protocol(KEY)) as reader:
        yield publisher, reader


def test_a_key_without_room_is_refused_and_the_others_go_on_without_loss() -> None:
    with small_publisher_and_reader() as (publisher, agent):
        lost = list[str]()
        many = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=KEYS[:2])
        many.on_lost = lost.append
        one = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=KEYS[2])
        publisher.publish("t", 0, key=KEYS[0])
        with pytest.raises(Refused, match=FULL):
            agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key="another")
        for key in KEYS:
            publisher.publish("t", 1, key=key)
        assert (taken(many, 3), taken(one, 1)) == ([KEYS[0], KEYS[0], KEYS[1]], [KEYS[2]])
        assert (many.dropped, one.dropped, lost, many.closed) == (0, 0, [], False)


def test_a_mailbox_of_more_keys_than_any_may_have_leaves_no_link() -> None:
    with Agent(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as agent:
        with Timings(mail_subscriptions=ROOM - 1), pytest.raises(PolicyRefused):
            agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=KEYS)


def test_a_subscription_to_more_keys_than_there_is_room_for_takes_no_room() -> None:
    with small_publisher_and_reader() as (publisher, agent):
        one = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key="one")
        with pytest.raises(Refused):
            agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=KEYS)
        wait_until(lambda: in_mailboxes(publisher) == [1])
        more = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=KEYS[:2])
        publisher.publish("t", 0, key="one")
        publisher.publish("t", 0, key=KEYS[1])
        assert (taken(one, 1), taken(more, 1)) == (["one"], [KEYS[1]])


def test_a_refusal_that_is_answered_again_is_the_same() -> None:
    with (
        Timings(mail_hold=0.2, mail_patience=0.1),
        small() as publisher,
        Faulty(publisher.rep_endpoint, 0.3, 0.4, 7) as faulty,
        Agent(protocol=Protocol(KEY)) as agent,
    ):
        kept = agent.subscribe(faulty.endpoint, "t", policy=mailbox(), key=KEYS)
        faulty.honest = False
        for number in range(10):
            with pytest.raises(Refused):
                agent.subscribe(faulty.endpoint, "t", policy=mailbox(), key=f"other-{number}")
        faulty.honest = True
        publisher.publish("t", 0, key=KEYS[0])
        assert (taken(kept, 1), faulty.faults > 0) == ([KEYS[0]], True)


def test_of_a_publisher_that_comes_back_with_less_room_some_go_on_and_the_others_are_told(
    timings: Callable[..., None],
) -> None:
    timings(mail_hold=0.2)
    with Agent(protocol=Protocol(KEY)) as agent:
        publisher = Agent(protocol=Protocol(KEY))
        reasons, told = dict[str, str](), threading.Semaphore(0)

        def note(key: str, reason: str) -> None:
            reasons[key] = reason
            told.release()

        made = {
            key: agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=key)
            for key in [*KEYS, "late", "later"]
        }
        for key, each in made.items():
            each.on_lost = partial(note, key)
        publisher.stop()
        with Timings(mail_subscriptions=ROOM, mail_hold=0.2):
            again = in_place_of(publisher, Agent, publisher.rep_endpoint, protocol=Protocol(KEY))
        with again:
            assert told.acquire(timeout=TIMEOUT)
            assert told.acquire(timeout=TIMEOUT)
            assert sorted(reasons) == ["late", "later"]
            for key, reason in reasons.items():
                with pytest.raises(SubscriptionClosed, match=FULL) as caught:
                    made[key].recv(TIMEOUT)
                assert (type(caught.value.__cause__), str(caught.value.__cause__)) == (Refused, reason)
            wait_until(lambda: in_mailboxes(again) == [ROOM])
            for key in KEYS:
                again.publish("t", 1, key=key)
            assert [taken(made[key], 1) for key in KEYS] == [[key] for key in KEYS]
