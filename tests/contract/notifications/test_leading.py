from __future__ import annotations

import threading

import pytest

from pzc import Agent, Notification, ReceiveTimeout, SubscriptionClosed, latest

from tests.contract.rigs.leading import Waiting, Witness, lead, reading
from tests.contract.rigs.pairs import LONG, pair, wait_until
from tests.contract.rigs.peers import TIMEOUT, run_threads


def unacknowledged(publisher: Agent) -> int:
    return publisher.statistics()["links"]["links"][0]["unacknowledged"]


def test_a_thread_that_waits_for_notifications_receives_them_by_itself() -> None:
    with reading() as (publisher, _, subscription):
        lead(publisher, subscription)
        assert subscription.received == publisher.statistics()["topics"]["t"]["published"]


def test_a_thread_that_wants_the_newest_only_leaves_it_to_its_link_to_receive() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=latest(), transport="unix")
        for count in range(100):
            publisher.publish("t", Witness(count))
            assert subscription.recv(TIMEOUT).content.thread != threading.get_ident()


def test_what_comes_while_nobody_waits_any_longer_is_received_all_the_same() -> None:
    with reading() as (publisher, _, subscription):
        count = lead(publisher, subscription)
        for number in range(3):
            publisher.publish("t", number)
        wait_until(lambda: subscription.pending == 3)
        assert (subscription.received, subscription.dropped) == (count, 0)


def test_the_publisher_is_told_what_is_done_though_nobody_waits_any_longer() -> None:
    with reading() as (publisher, _, subscription):
        lead(publisher, subscription)
        wait_until(lambda: unacknowledged(publisher) == 0)


def test_whoever_leads_waits_no_longer_than_it_was_told() -> None:
    with reading() as (publisher, _, subscription):
        lead(publisher, subscription)
        with pytest.raises(ReceiveTimeout):
            subscription.recv(0.05)
        publisher.publish("t", "later")
        assert subscription.recv(TIMEOUT).content == "later"


def test_the_end_of_the_subscription_ends_the_wait_of_whoever_leads() -> None:
    with reading() as (publisher, _, subscription):
        waiting = Waiting(publisher, subscription)
        assert waiting.leads.wait(TIMEOUT)
        subscription.close()
        assert isinstance(waiting.finish(), SubscriptionClosed)


def test_a_callback_that_joins_the_link_is_not_called_by_whoever_leads() -> None:
    with reading() as (publisher, reader, subscription):
        waiting = Waiting(publisher, subscription)
        assert waiting.leads.wait(TIMEOUT)
        called: list[threading.Thread] = []
        there = threading.Event()

        def callback(_: Notification) -> None:
            called.append(threading.current_thread())
            there.set()

        reader.subscribe(publisher.rep_endpoint, "u", callback, policy=LONG, transport="unix")
        publisher.publish("u", 1)
        assert there.wait(TIMEOUT)
        publisher.publish("t", "last")
        assert waiting.finish() == "last"
        assert called[0] is not waiting


def test_threads_that_wait_for_one_subscription_get_each_notification_once() -> None:
    with reading() as (publisher, _, subscription):
        got: list[int] = []

        def take() -> None:
            while (number := subscription.recv(TIMEOUT).content) >= 0:
                got.append(number)

        def publish() -> None:
            for number in range(500):
                publisher.publish("t", number)
            for _ in range(2):
                publisher.publish("t", -1)

        run_threads(take, take, publish)
        assert sorted(got) == list(range(500))
