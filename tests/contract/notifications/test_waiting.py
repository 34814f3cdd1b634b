"""Threads that wait in `recv` on a link, and the one thread that receives for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import Agent, Notification, ReceiveTimeout, Subscription, SubscriptionClosed

from tests.contract.rigs.pairs import LONG, pair, wait_until
from tests.contract.rigs.peers import TIMEOUT, Inbox, run_threads


@contextmanager
def reading() -> Iterator[tuple[Agent, Agent, Subscription]]:
    with pair() as (publisher, reader):
        yield publisher, reader, reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")


def follow(publisher: Agent, subscription: Subscription, count: int = 20) -> int:
    """Publish and take one after the other; how many that were."""
    for number in range(count):
        publisher.publish("t", number)
        assert subscription.recv(TIMEOUT).content == number
    return count


class Waiting(threading.Thread):
    """Takes some, and then waits for one more."""

    def __init__(self, publisher: Agent, subscription: Subscription) -> None:
        super().__init__(daemon=True)
        self._publisher, self._subscription = publisher, subscription
        self.waits = threading.Event()
        self.got: list[Any] = []
        self.start()

    def run(self) -> None:
        follow(self._publisher, self._subscription)
        self.waits.set()
        try:
            self.got.append(self._subscription.recv(TIMEOUT).content)
        except Exception as exc:
            self.got.append(exc)

    def finish(self) -> Any:
        self.join(TIMEOUT)
        return self.got[0]


def test_what_comes_while_nobody_waits_any_longer_is_received_all_the_same() -> None:
    with reading() as (publisher, _, subscription):
        count = follow(publisher, subscription)
        for number in range(3):
            publisher.publish("t", number)
        wait_until(lambda: subscription.pending == 3)
        assert (subscription.received, subscription.dropped) == (count, 0)


def test_the_publisher_is_told_what_is_done_though_nobody_waits_any_longer() -> None:
    with reading() as (publisher, _, subscription):
        follow(publisher, subscription)
        wait_until(lambda: publisher.statistics()["links"]["links"][0]["unacknowledged"] == 0)


def test_whoever_waits_waits_no_longer_than_it_was_told() -> None:
    with reading() as (publisher, _, subscription):
        follow(publisher, subscription)
        with pytest.raises(ReceiveTimeout):
            subscription.recv(0.05)
        publisher.publish("t", "later")
        assert subscription.recv(TIMEOUT).content == "later"


def test_the_end_of_the_subscription_ends_the_wait() -> None:
    with reading() as (publisher, _, subscription):
        waiting = Waiting(publisher, subscription)
        assert waiting.waits.wait(TIMEOUT)
        subscription.close()
        assert isinstance(waiting.finish(), SubscriptionClosed)


def test_a_callback_that_joins_the_link_is_not_called_by_whoever_waits() -> None:
    with reading() as (publisher, reader, subscription):
        waiting = Waiting(publisher, subscription)
        assert waiting.waits.wait(TIMEOUT)
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


def receivers() -> list[threading.Thread]:
    """What receives for this process, or stands by; one that was held up, and is another's now, ends soon."""
    return [each for each in threading.enumerate() if each.name.startswith(("pzc-notify", "pzc-link "))]


@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_links_to_several_publishers_take_one_thread_of_their_reader(way: str) -> None:
    with Agent() as reader, Agent() as first, Agent() as second, Agent() as third:
        inboxes = [Inbox() for _ in range(3)]
        for publisher, inbox in zip((first, second, third), inboxes, strict=True):
            reader.subscribe(publisher.rep_endpoint, "t", inbox, policy=LONG, transport=way)
        for publisher, inbox in zip((first, second, third), inboxes, strict=True):
            publisher.publish("t", 7)
            assert inbox.next().content == 7
        wait_until(lambda: 1 <= len(receivers()) <= 2)  # one receives, perhaps one stands by for it


def test_a_callback_that_stalls_where_notifications_arrive_delays_no_other_link() -> None:
    with Agent() as reader, Agent() as first, Agent() as second:
        entered, leave, inbox = threading.Event(), threading.Event(), Inbox()

        def stalls(notification: Notification) -> None:
            if notification.content == "stall":
                entered.set()
                leave.wait(TIMEOUT)

        slow = reader.subscribe(first.rep_endpoint, "t", stalls, policy=LONG, transport="unix")
        with Agent() as other:
            other.subscribe(second.rep_endpoint, "t", inbox, policy=LONG, transport="unix")
            for number in range(10):
                first.publish("t", number)
            wait_until(lambda: slow.received == 10)
            first.publish("t", "stall")
            assert entered.wait(TIMEOUT)
            for number in range(10):
                second.publish("t", number)
                assert inbox.next().content == number
            assert not leave.is_set()
            leave.set()
