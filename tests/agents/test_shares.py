"""Shares: what a subscription gets of a publisher, whenever that confirms, forgets or is replaced."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import Gap, Notification, Subscription, drop, mailbox
from pzc.agents.notifications.links.arrivals import Arrival
from pzc.agents.notifications.links.roster import MailboxShare
from pzc.agents.notifications.links.together import alone
from pzc.agents.notifications.shares import Share, hand_on
from pzc.protocol.link_messages import Loss
from pzc.transport.executor import Executor

EPOCH = 7


class Counted:
    """Where arrivals end."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ended: list[int] = []

    def consumed(self, arrival: Arrival) -> None:
        self.ended.append(arrival.number)

    def arrival(self, number: int, topic: str = "t") -> Arrival:
        notification = Notification("p", "", topic, "", number, EPOCH, 0.0, 0.0, number)
        return Arrival(self, number, topic, "", EPOCH, number, notification=notification)


class Bench:
    """A share of topic ``t`` or of all."""

    def __init__(self, executor: Executor, topic: str = "t") -> None:
        self.book = Counted()
        self.subscription = Subscription("p", topic, None, drop(), None, executor, lambda _: None)
        self.share = Share(self.subscription)

    def arrive(self, number: int) -> None:
        hand_on((self.share,), alone(self.book.arrival(number)))

    def lose(self, total: int, at: int) -> None:
        hand_on((self.share,), Loss(1, "t", at, total))

    @property
    def got(self) -> list[int]:
        return [self.subscription.recv(0).content for _ in range(self.subscription.pending)]


@pytest.fixture
def bench(executor: Executor) -> Bench:
    return Bench(executor)


@given(
    st.lists(st.sampled_from(["come", "lose", "tell", "again"]), max_size=25), st.integers(0, 25)
)  # fmt: skip
def test_whenever_it_is_confirmed_everything_is_received_or_lost(events: list[str], confirmed: int) -> None:
    """Numbers come or are lost, which is told now and then."""
    bench, number, lost, at = Bench(Executor("pzc-test")), 10, 0, 0
    for turn, event in enumerate([*events, "tell"]):
        if turn == min(confirmed, len(events)):
            bench.share.begin(EPOCH, {"t": 10})
        if event == "come":
            number += 1
            bench.arrive(number)
        elif event == "lose":
            number, lost, at = number + 1, lost + 1, number + 1
        else:
            bench.lose(lost, at)
    assert bench.subscription.pending + bench.subscription.dropped == number - 10
    bench.subscription.close()


def test_losses_that_are_told_before_the_confirmation_are_counted_with_it(bench: Bench) -> None:
    bench.lose(1, 3)
    bench.lose(3, 5)
    bench.arrive(6)
    assert bench.subscription.dropped == 0
    bench.share.begin(EPOCH, {"t": 2})
    assert bench.subscription.gaps == [Gap(EPOCH, 3, 5)]
    assert bench.got == [6]


def test_a_sum_may_be_told_before_what_is_older(bench: Bench) -> None:
    bench.share.begin(EPOCH, {"t": 0})
    bench.lose(1, 3)
    bench.arrive(1)
    bench.lose(1, 3)
    bench.arrive(2)
    bench.arrive(4)
    assert (bench.got, bench.subscription.gaps) == ([1, 2, 4], [Gap(EPOCH, 3, 3)])


def test_what_was_told_is_not_lost_again_when_the_publisher_forgot(bench: Bench) -> None:
    bench.share.begin(EPOCH, {"t": 0})
    bench.arrive(1)
    bench.lose(2, 4)
    bench.share.forget()
    bench.share.begin(EPOCH, {"t": 6})
    assert bench.subscription.dropped == 5
    bench.lose(1, 7)
    assert bench.subscription.dropped == 6


def test_what_comes_after_it_was_forgotten_waits_for_the_next_confirmation(bench: Bench) -> None:
    bench.share.begin(EPOCH, {"t": 0})
    bench.arrive(1)
    bench.share.forget()
    bench.arrive(6)
    assert bench.share.held
    bench.share.begin(EPOCH, {"t": 5})
    assert bench.got == [1, 6]
    assert bench.subscription.gaps == [Gap(EPOCH, 2, 5)]


def test_what_waits_when_another_publisher_takes_over_is_done_with(bench: Bench) -> None:
    bench.arrive(1)
    bench.share.restart("other")
    assert bench.book.ended == [1]
    assert bench.subscription.publisher == "other"
    bench.share.begin(8, {"t": 0})
    assert bench.subscription.gaps == []


def test_another_publisher_is_one_gap_of_unknown_size(bench: Bench) -> None:
    bench.share.begin(EPOCH, {"t": 4})
    bench.share.restart("other")
    bench.arrive(1)
    bench.share.begin(EPOCH, {"t": 0})
    assert bench.subscription.gaps == [Gap(EPOCH, 0, 0, restarted=True)]
    assert bench.got == [1]


def test_too_many_that_come_before_the_confirmation_are_lost_and_done_with(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pzc.agents.notifications.shares._EARLY_NOTIFICATIONS", 2)
    for number in (1, 2, 3, 6, 7):
        bench.arrive(number)
    bench.lose(3, 8)
    assert bench.book.ended == [3, 6, 7]
    bench.share.begin(EPOCH, {"t": 0})
    assert bench.got == [1, 2]
    assert bench.subscription.dropped == 6


def test_a_second_confirmation_changes_nothing(bench: Bench) -> None:
    bench.share.begin(EPOCH, {"t": 1})
    bench.share.begin(EPOCH, {"t": 4})
    assert bench.subscription.gaps == []


def early_of_a_mailbox(executor: Executor, name: str | None) -> tuple[Subscription, Counted]:
    """What a subscription was told after the end of a mailbox that never confirmed it, nor the next one's 5."""
    book = Counted()
    subscription = Subscription("p", "t", None, mailbox(name=name), None, executor, lambda _: None)
    share = MailboxShare(subscription, 1, Future())
    hand_on((share,), alone(book.arrival(3)))
    share.forget()
    share.begin(EPOCH, {"t": 5})
    return subscription, book


def test_what_a_mailbox_with_a_name_sent_before_its_end_is_delivered_unconfirmed(executor: Executor) -> None:
    subscription, _ = early_of_a_mailbox(executor, "archive")
    assert (subscription.recv(0).content, subscription.gaps) == (3, [Gap(EPOCH, 4, 5)])


def test_what_a_mailbox_without_a_name_sent_before_its_end_is_lost_unconfirmed(executor: Executor) -> None:
    subscription, book = early_of_a_mailbox(executor, None)
    assert (book.ended, subscription.pending, subscription.gaps) == ([3], 0, [Gap(EPOCH, 3, 5)])


def test_what_came_for_a_place_that_leaves_unconfirmed_is_done_with(bench: Bench) -> None:
    bench.arrive(1)
    bench.share.leave()
    assert bench.book.ended == [1]
