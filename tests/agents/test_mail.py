"""Mailboxes over sockets: what is told of those that end, and that nothing of them stays."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import pytest

from pzc import Subscription, SubscriptionClosed, mailbox
from pzc.agents.notifications.links import open_links
from pzc.agents.notifications.links.link import Link
from pzc.agents.notifications.links.roster import MailboxShare, Roster
from pzc.transport.executor import Executor

from tests.agents.in_parts import parts_and_reader
from tests.contract.notifications.test_mail_restarts import Rig, confirms
from tests.contract.rigs.calling import in_thread
from tests.contract.rigs.mailing import POLICY, counted, subscribed, taken
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT

MANY = [f"key-{number}" for number in range(50)]


def test_what_a_removed_mailbox_missed_is_told() -> None:
    with parts_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        publisher.publish("t", 0)
        subscription.recv(TIMEOUT)
        with publisher.publishing.subscribers.lock:
            publisher.forget_silent_readers()
            publisher.publish("t", 1)
        wait_until(lambda: bool(subscription.gaps))
        publisher.publish("t", 2)
        assert subscription.recv(TIMEOUT).content == 2
        assert [(gap.first, gap.last) for gap in subscription.gaps] == [(2, 2)]


def test_a_mailbox_that_was_removed_gets_all_keys_again() -> None:
    with parts_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=POLICY, key=MANY)
        publisher.publish("t", 0, key=MANY[3])
        assert taken(subscription, 1) == [MANY[3]]
        with publisher.publishing.subscribers.lock:
            publisher.forget_silent_readers()
            publisher.publish("t", 1, key=MANY[4])
        wait_until(lambda: bool(subscription.gaps))
        for key in MANY:
            publisher.publish("t", 2, key=key)
        assert taken(subscription, len(MANY)) == MANY
        assert [(gap.first, gap.last) for gap in subscription.gaps] == [(2, 2)]


def test_a_subscription_that_is_closed_before_it_is_confirmed_ends_at_once_and_leaves_no_mailbox() -> None:
    rig = Rig()
    try:
        rig.relay.loses_answer = confirms
        subscribe = partial(
            rig.reader.subscribe, rig.relay.endpoint, "t", policy=mailbox(), timeout=3 * TIMEOUT
        )
        thread, outcome = in_thread(subscribe)
        assert rig.publisher.wait_for_subscribers("t", 1, TIMEOUT)
        assert rig.reader.unsubscribe(rig.relay.endpoint, "t") == 1
        thread.join(TIMEOUT)
        assert isinstance(outcome[0], SubscriptionClosed)
        wait_until(lambda: rig.publisher.statistics()["mailboxes"] == [])
    finally:
        rig.close()


def test_closing_all_keys_leaves_nothing() -> None:
    with parts_and_reader() as (publisher, agent):
        made = subscribed(agent, publisher.rep_endpoint, 300, print)
        made.append(agent.subscribe(publisher.rep_endpoint, "t", print, policy=POLICY, key=MANY))
        gone = [weakref.ref(each) for each in made]
        while made:
            made.pop().close()
        wait_until(lambda: publisher.statistics()["mailboxes"] == [])
        assert publisher.publishing.subscribers.links == {}
        assert agent.statistics()["subscriptions"] == []
        open_links.settle()
        wait_until(lambda: bool(gc.collect() or 1) and not [each for each in gone if each()])
        assert not [each for each in gc.get_objects() if isinstance(each, Link)]


@pytest.mark.parametrize("step", ["add", "remove", "wanting", "paused"])
def test_a_place_more_among_two_thousand_looks_at_no_other(executor: Executor, step: str) -> None:
    def one(number: int) -> MailboxShare:
        subscription = Subscription("p", "t", None, POLICY, str(number), executor, lambda _: None)
        return MailboxShare(subscription, number + 1, Future())

    def calls(number: int) -> int:
        roster = Roster()
        made = [one(each) for each in range(number)]
        for share in made:
            roster.add(share)
        new, old = one(number), made[number // 2].subscription
        does: dict[str, Callable[[], object]] = {
            "add": lambda: roster.add(new),
            "remove": lambda: roster.remove(old),
            "wanting": lambda: roster.wanting([2]),
            "paused": lambda: roster.paused,
        }
        with counted() as so_far:
            does[step]()
            return so_far()

    assert calls(2000) == calls(2)
