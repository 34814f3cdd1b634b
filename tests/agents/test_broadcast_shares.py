"""What a subscription gets of what its publisher broadcasts, whenever that confirms or is replaced."""

from __future__ import annotations

import pytest

from pzc import Gap

from tests.agents.subscriptions import EPOCH, Make, hear, heard
from tests.contract.rigs.peers import Inbox, balance


def test_a_loss_right_behind_the_confirmation_is_a_gap(make: Make) -> None:
    subscription = make()
    share = heard(subscription, held=True)
    share.begin(EPOCH, {"t": 10})
    hear(share, 12, 12)
    assert subscription.gaps == [Gap(EPOCH, 11, 11)]


def test_what_was_published_before_the_confirmation_is_no_part_of_it(make: Make) -> None:
    subscription = make()
    share = heard(subscription, held=True)
    share.begin(EPOCH, {"t": 10})
    hear(share, 5, 6)
    hear(share, 9, 11)
    assert (subscription.gaps, balance(subscription)) == ([], 1)
    assert subscription.recv(0).content == 11


def test_notifications_that_overtake_the_confirmation_are_sorted_out_by_it(make: Make) -> None:
    got = Inbox()
    subscription = make(got)
    share = heard(subscription, held=True)
    hear(share, 8, 11)
    hear(share, 13, 13)
    assert balance(subscription) == 0
    share.begin(EPOCH, {"t": 10})
    hear(share, 14, 14)
    assert got.contents(3) == [11, 13, 14]
    assert subscription.gaps == [Gap(EPOCH, 12, 12)]


def test_what_arrives_before_the_confirmation_is_bounded_and_counted(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pzc.agents.notifications.shares._EARLY_NOTIFICATIONS", 3)
    subscription = make()
    share = heard(subscription, held=True)
    hear(share, 1, 3)
    hear(share, 5, 6)
    share.begin(EPOCH, {"t": 0})
    hear(share, 7, 7)
    assert subscription.gaps == [Gap(EPOCH, 4, 6)]
    assert balance(subscription) == 7


def test_a_tail_is_a_gap_once_it_is_confirmed(make: Make) -> None:
    subscription = make()
    share = heard(subscription, held=True)
    share.tail("t", EPOCH, 12)
    share.begin(EPOCH, {"t": 10})
    assert subscription.gaps == []
    share.tail("t", EPOCH, 12)
    share.tail("t", EPOCH, 12)
    hear(share, 11, 11)
    assert (subscription.gaps, balance(subscription)) == ([Gap(EPOCH, 11, 12)], 2)


def test_a_restart_before_the_confirmation_is_no_gap(make: Make) -> None:
    subscription = make()
    share = heard(subscription, held=True)
    hear(share, 1, 5)
    share.restart("p2")
    share.begin(8, {"t": 2})
    assert (subscription.gaps, balance(subscription)) == ([], 0)
    hear(share, 3, 3, epoch=8)
    assert (subscription.gaps, balance(subscription)) == ([], 1)


def test_a_subscription_to_all_follows_each_topic_from_the_confirmation_on(make: Make) -> None:
    subscription = make(topic="*")
    share = heard(subscription, held=True)
    share.begin(EPOCH, {"a": 4})
    hear(share, 5, 5, topic="a")
    hear(share, 3, 3, topic="new")
    hear(share, 5, 5, topic="a")
    assert (subscription.gaps, subscription.pending) == ([Gap(EPOCH, 1, 2)], 2)


def test_a_restart_is_one_gap_of_unknown_size(make: Make) -> None:
    subscription = make()
    share = heard(subscription)
    hear(share, 1, 5)
    share.restart("p2")
    assert subscription.gaps == []
    share.begin(8, {"t": 2})
    hear(share, 3, 3, epoch=8)
    assert subscription.gaps == [Gap(8, 0, 0, restarted=True)]
    assert (subscription.publisher, subscription.dropped) == ("p2", 0)


def test_a_restart_is_told_once_by_a_share_of_another_kind_that_takes_its_place(make: Make) -> None:
    subscription = make()
    share = heard(subscription)
    hear(share, 1, 5)
    share.restart("p2")
    for _ in range(2):
        heard(subscription, held=True).begin(8, {"t": 2})
    assert subscription.gaps == [Gap(8, 0, 0, restarted=True)]
