from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import Notification
from pzc.agents.notifications.links.arrivals import FREED, Arrival, Flow, HeldArrivals, Make
from pzc.protocol.errors import DecodeError, RemoteProtocolError

from tests.contract.rigs.peers import run_threads

MIB = 1 << 20


class News:
    """What held arrivals tell."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.woken = 0
        self.flow = Flow()
        self.arrivals = HeldArrivals(self.told.append, self.wake)

    def wake(self) -> None:
        self.woken += 1

    def arrive(self, number: int, left: int, content: Any = None, *, leased: int = 0) -> Arrival:
        assert not self.arrivals.entered(number, 1, self.flow)
        if leased:
            self.arrivals.lease(number, leased)
        arrival = Arrival(self.arrivals, number, "t", "", 7, number, leased > 0)
        arrival.left = left
        arrival.make = lambda: Notification("p", "", "t", "", number, 7, 0.0, 0.0, content)
        return arrival

    def report(self) -> tuple[int, int, list[int]] | None:
        return self.arrivals.report(always=False)


def test_a_notification_is_done_when_its_last_subscription_is() -> None:
    news = News()
    arrival = news.arrive(1, 2)
    arrival.consumed()
    assert news.report() == (1, 0, [])
    arrival.consumed()
    assert news.report() == (1, 1, [])


def test_a_notification_is_made_once_and_is_the_same_for_all() -> None:
    news = News()
    arrival = news.arrive(1, 2)
    assert arrival.open() is arrival.open()


def test_threads_that_open_at_once_get_one_object() -> None:
    news = News()
    arrival, found = news.arrive(1, 8), list[Notification]()
    run_threads(*[lambda: found.append(arrival.open())] * 8)
    assert len({id(notification) for notification in found}) == 1


def test_what_cannot_be_decoded_raises_for_each_subscription() -> None:
    news = News()
    arrival = news.arrive(1, 2)

    def make() -> Notification:
        raise DecodeError("not readable")

    arrival.make = make
    for _ in range(2):
        with pytest.raises(DecodeError, match="not readable"):
            arrival.open()


def test_a_narrow_reader_that_has_left_costs_no_lock_for_each_notification_any_more() -> None:
    news = News()
    wide, news.flow = news.flow, Flow(1)
    news.arrive(1, 1).consumed()
    assert news.report() == (1, 1, [])
    news.flow = wide
    first, _ = news.arrive(2, 1), news.arrive(3, 1)
    first.consumed()
    assert len(news.arrivals.receipts) == 2  # as it is not written down yet


def leased(news: News, number: int, left: int) -> Arrival:
    import weakref

    block = np.zeros(10, np.uint8)
    weakref.finalize(block, news.arrivals.view_ended, number)
    return news.arrive(number, left, block, leased=MIB)


def test_a_leased_notification_is_not_done_while_a_view_is_kept() -> None:
    news = News()
    arrival = leased(news, 1, 1)
    kept = arrival.open().content[2:4]
    arrival.consumed()
    assert news.report() == (1, 0, [])
    del kept
    gc.collect()
    assert news.woken == 1
    news.arrivals.settle()
    assert news.report() == (1, 1, [])
    assert news.told[-1] is True


def test_a_view_that_ends_with_its_last_subscription_wakes_nobody() -> None:
    news = News()
    arrival = leased(news, 1, 1)
    arrival.open()
    arrival.consumed()
    assert (news.woken, news.report()) == (0, (1, 1, []))


def test_a_leased_content_that_nobody_opened_is_let_go_of() -> None:
    news = News()
    leased(news, 1, 1).consumed()
    assert news.report() == (1, 1, [])


def test_what_is_done_is_told_in_a_while_and_once_until_the_next_report() -> None:
    news = News()
    first, second, third = (news.arrive(number, 1) for number in range(1, 4))
    first.consumed()
    second.consumed()
    assert news.told == [False]
    assert news.report() == (3, 2, [])
    third.consumed()
    assert news.told == [False, False]


def test_what_is_done_counts_no_more_before_anybody_is_told() -> None:
    news = News()
    news.arrive(1, 1).consumed()
    assert len(news.arrivals) == 0


def test_half_a_window_is_told_now() -> None:
    news = News()
    news.flow.half = 2
    arrivals = [news.arrive(number, 1) for number in range(1, 5)]
    arrivals[0].consumed()
    arrivals[1].consumed()
    assert news.told == [False, True]
    assert news.report() == (4, 2, [])
    arrivals[2].consumed()
    assert news.told[-1] is False


def test_blocks_of_a_topic_with_a_window_are_given_back_together() -> None:
    news = News()
    news.flow.half = 16
    some = FREED // MIB
    arrivals = [leased(news, number, 1) for number in range(1, some + 3)]
    for arrival in arrivals[:some]:
        arrival.consumed()
    assert news.told == [False, True]
    assert news.report() == (some + 2, some, [])
    arrivals[some].consumed()
    assert news.told[-1] is False


def test_a_block_is_given_back_at_once_while_another_one_is_kept() -> None:
    news = News()
    news.flow.half = 16
    first, second, _ = (leased(news, number, 1) for number in range(1, 4))
    kept = first.open().content[2:4]
    first.consumed()
    second.consumed()
    assert news.told == [True]
    del kept


def test_a_block_of_a_topic_without_a_window_is_given_back_at_once() -> None:
    news = News()
    first, _ = leased(news, 1, 1), leased(news, 2, 1)
    first.consumed()
    assert news.told == [True]


def test_what_somebody_waits_for_is_told_now() -> None:
    news = News()
    news.arrivals.hurry = 1
    first, second, _ = (news.arrive(number, 1) for number in range(1, 4))
    first.consumed()
    assert news.told == [True]
    news.report()
    second.consumed()
    assert news.told == [True, False]


def test_a_number_that_came_before_is_refused_and_a_hole_is_an_error() -> None:
    news = News()
    news.arrive(1, 1)
    assert news.arrivals.entered(1, 2, news.flow) == 1
    with pytest.raises(RemoteProtocolError):
        news.arrivals.entered(4, 1, news.flow)


def test_a_sign_of_life_tells_what_was_told_before() -> None:
    news = News()
    news.arrive(1, 1).consumed()
    assert news.report() == (1, 1, [])
    assert news.arrivals.report(always=True) == (1, 1, [])


@given(st.permutations(range(1, 13)), st.sets(st.integers(0, 12)))
def test_in_whatever_order_they_are_done_all_are_told_once(order: list[int], reports: set[int]) -> None:
    news = News()
    arrivals = {number: news.arrive(number, 1) for number in range(1, 13)}
    done: set[int] = set()
    for step, number in enumerate(order):
        arrivals[number].consumed()
        done.add(number)
        report = news.report() if step in reports else None
        if report is not None:
            _, upto, others = report
            assert set(range(1, upto + 1)) <= done
            assert set(others) <= done
    assert news.arrivals.report(always=True) == (12, 12, [])
    assert len(news.arrivals) == 0


def in_block(news: News, number: int, left: int) -> Arrival:
    arrival = leased(news, number, left)
    arrival.lock = threading.Lock()
    news.arrivals.blocks[number] = arrival, ()
    return arrival


def copied(_: Make | None) -> Make:
    return lambda: Notification("p", "", "t", "", 1, 7, 0.0, 0.0, "copied")


@pytest.mark.parametrize("opened", [False, True])
def test_what_is_given_back_is_done_and_its_subscriptions_get_a_copy(opened: bool) -> None:
    news = News()
    arrival = in_block(news, 1, 2)
    if opened:
        assert news.arrivals.lend(1)
        arrival.open()
    assert news.arrivals.give_back(arrival, copied)
    assert (news.told, news.report(), news.woken) == ([True], (1, 1, []), 0)
    assert arrival.open().content == "copied"
    for _ in range(2):
        arrival.consumed()
    assert (news.report(), news.arrivals.early, news.arrivals.blocks) == (None, set(), {})


def test_what_is_looked_at_is_given_back_when_its_view_has_ended() -> None:
    news = News()
    arrival = in_block(news, 1, 1)
    assert news.arrivals.lend(1)
    kept = arrival.open().content
    assert not news.arrivals.give_back(arrival, copied)
    assert news.report() == (1, 0, [])
    del kept
    gc.collect()
    news.arrivals.settle()
    assert news.report() == (1, 1, [])


def test_what_cannot_be_copied_stays_where_it_lies() -> None:
    def fail(_: Make | None) -> Make:
        raise MemoryError

    news = News()
    arrival = in_block(news, 1, 1)
    assert not news.arrivals.give_back(arrival, fail)
    assert (news.report(), isinstance(arrival.open().content, np.ndarray)) == ((1, 0, []), True)


def test_of_what_has_no_window_and_lies_in_no_block_all_is_done_but_what_is_waited_for() -> None:
    news = News()
    arrivals = [news.arrive(number, 1) for number in (1, 2)]
    in_block(news, 3, 1)
    news.flow = Flow(1)
    news.arrive(4, 1)
    news.arrivals.hurry = 2
    news.arrivals.lighten()
    assert (news.told, news.report()) == ([True], (4, 1, []))
    for arrival in arrivals:
        arrival.consumed()
    assert news.report() == (4, 2, [])
