"""Whose a mailbox is, and for how long."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from pzc.delivery.mail import Answered, Applied, Batch, Caller, Command, Gone, Position, Refusal
from pzc.delivery.policies import mailbox
from pzc.protocol.limits import Limits

from tests.delivery.mailroom import (
    FIRST,
    ME,
    NEW,
    OLD,
    Book,
    T,
    command,
    numbers,
    poll,
    publish,
    subscribed,
    tickets,
    unknown,
)

GRACE = Limits().mail_grace


def test_a_silent_reader_lives_until_its_time_is_over_and_then_everything_of_it_is_gone() -> None:
    book = subscribed(Command("t"), Command("t", "k"))
    poll(book, now=10.0, hold=1e9)
    book.tick(10.0 + T - 1)
    assert (len(book), book.events()) == (1, [])
    book.tick(10.0 + T)
    assert (len(book), book.events()) == (1, [Answered("ticket", Batch(FIRST, 0, 1, []))])
    publish(book, 1)
    book.tick(10.0 + T + GRACE - 1)
    assert (len(book), book.events()) == (1, [])
    book.tick(10.0 + T + GRACE)
    assert book.events() == [Gone("me", "me", 1, 1)]
    assert (len(book), len(book.interests), book.next_deadline()) == (0, 0, None)
    book.tick(1e9)
    assert book.events() == []


def test_the_deadlines_alone_lead_to_the_flush_and_to_the_end() -> None:
    book = subscribed()
    poll(book)
    at: list[float] = []
    while (deadline := book.next_deadline()) is not None:
        book.tick(deadline)
        if book.events():
            at.append(deadline)
    assert at == [T, T + GRACE]


def test_a_reader_that_polls_lives_for_ever() -> None:
    book = subscribed()
    for now in range(0, 3000, 299):
        book.tick(float(now))
        poll(book, now=float(now))
    assert Gone not in {type(event) for event in book.events()}


def test_a_poll_is_held_no_longer_than_it_asks() -> None:
    book = subscribed()
    poll(book, hold=1.0)
    book.tick(0.9)
    assert book.events() == []
    book.tick(1.0)
    assert tickets(book) == ["ticket"]


@pytest.mark.parametrize("hold", [float("nan"), -1.0])
def test_a_time_that_is_none_is_no_time(hold: float) -> None:
    book = subscribed()
    poll(book, hold=hold)
    book.tick(0.0)
    assert len(book.events()) == 1


def test_a_publisher_that_was_frozen_gives_a_waiting_reader_time_to_come_back() -> None:
    book = subscribed()
    poll(book)
    book.tick(10 * T)
    assert tickets(book) == ["ticket"]
    poll(book, now=10 * T + GRACE - 1)
    book.tick(10 * T + GRACE)
    assert len(book) == 1


def test_a_reader_that_returns_too_late_is_unknown() -> None:
    book = subscribed()
    book.tick(T + GRACE)
    assert poll(book) == command(book, Command("u"), number=2, position=FIRST) == unknown()
    assert command(book, Command("t")) == Applied(Position(7, 2), 1)


def test_alarms_of_mailboxes_that_were_closed_are_swept_out() -> None:
    book = Book(7)
    for number in range(1, 1000):
        poll(book, position=None)
        book.close(ME, Position(7, number))
    assert len(book._alarms) < 100


def test_closing_is_no_death_and_only_the_reader_can_do_it() -> None:
    book = subscribed()
    poll(book)
    assert not book.close(Caller("other"), FIRST)
    assert not book.close(ME, Position(7, 9))
    assert book.close(ME, FIRST)
    assert book.events() == [Answered("ticket", unknown())]
    assert (len(book), len(book.interests)) == (0, 0)


def test_memory_of_a_dead_reader_comes_back_and_a_key_costs_little() -> None:
    book = Book(7)
    command(book, Command("warm"))
    book.close(ME, FIRST)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, 21):
            command(book, *(Command("t", f"key {number} {each}") for each in range(1000)), number=number)
        per_key = (tracemalloc.get_traced_memory()[0] - before) / 20_000
        publish(book, *range(1, 5000), key="key 1 1")
        book.tick(T + GRACE)
        book.events()
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert per_key < 1000
    assert left < 0.05 * per_key * 20_000


# Durable names


def archive(**options: Any) -> Book:
    book = subscribed(policy=mailbox(name="archive", **options), caller=OLD)
    publish(book, 1, 2, 3)
    assert numbers(poll(book, caller=OLD)) == [1, 2, 3]
    assert poll(book, 3, 1, caller=OLD, ticket="old") is None
    return book


def test_another_process_goes_on_behind_what_was_acknowledged() -> None:
    book = archive()
    assert numbers(poll(book, caller=NEW, position=None)) == [2, 3]
    publish(book, 4)
    assert numbers(poll(book, 3, 3, caller=NEW, position=Position(7, 2))) == [4]


def test_the_process_before_is_told_and_cannot_come_back() -> None:
    book = archive()
    poll(book, caller=NEW, position=None)
    assert book.events() == [Answered("old", Refusal("taken over", 7))]
    for position in (None, FIRST):
        assert poll(book, caller=OLD, position=position) == Refusal("taken over", 7)
        assert command(book, caller=OLD, position=position, number=9) == Refusal("taken over", 7)
    assert not book.close(OLD, FIRST)


def test_the_new_process_begins_its_batches_anew() -> None:
    book = archive()
    assert command(book, Command("u"), caller=NEW, begins=True, ends=True) == Applied(Position(7, 2), 1)
    publish(book, 4)
    publish(book, 5, topic="u")
    assert numbers(poll(book, caller=NEW, position=Position(7, 2))) == [2, 3, 5]


def test_a_name_belongs_to_the_key_that_opened_it() -> None:
    book = archive()
    other = Caller("other", "archive", "another key")
    assert poll(book, caller=other, position=None) is None
    assert len(book) == 2
    assert book.events() == []  # nobody is told that it was taken over


def test_nobody_with_another_key_takes_or_sees_the_mailbox_of_a_process() -> None:
    book = archive()
    assert poll(book, caller=Caller("reader", None, "a key"), position=None) is None
    assert poll(book, caller=Caller("reader", None, "another key"), position=None) is None
    assert len(book) == 3


def test_a_name_and_a_process_of_that_name_are_different_mailboxes() -> None:
    book = archive()
    assert poll(book, caller=Caller("archive"), position=None) is None
    assert len(book) == 2


def test_a_durable_mailbox_is_kept_for_its_own_time() -> None:
    book = archive(keep=10.0)
    book.tick(10.0)
    book.events()
    book.tick(10.0 + GRACE)
    assert book.events() == [Gone("archive", "old", 2, 2)]
    assert poll(book, caller=OLD) == unknown()


def test_a_long_keep_does_not_hold_a_poll_for_as_long() -> None:
    book = archive(keep=86_400.0)
    book.tick(T)
    assert tickets(book) == ["old"]
    publish(book, 4)
    book.tick(86_400.0)
    assert numbers(poll(book, caller=NEW, position=None, now=86_400.0)) == [2, 3, 4]


def test_statistics_tell_what_a_mailbox_holds_and_has_done() -> None:
    book = subscribed(policy=mailbox(4))
    publish(book, 1, 2, 3, 4, 5, size=10)
    poll(book, limit=2)
    poll(book, 3, 2, limit=0)
    [each] = book.statistics(6.0)
    assert (each.reader, each.waiting, each.bytes, each.unacknowledged) == ("me", 3, 30, 1)
    assert (each.evicted, each.delivered, each.age, each.subscriptions) == (1, 1, 6.0, 1)
