"""Mailboxes whose messages go with their frames: what they count for, and how polls are answered."""

from __future__ import annotations

from pzc.delivery.mail import Answered, Command, PollRequest
from pzc.delivery.policies import mailbox

from tests.delivery.mailroom import FIRST, ME, Book, Caller, command

OTHER = Caller("other")


def book_of(*callers: Caller, **bounds: int | str) -> Book:
    book = Book(7)
    for caller in callers:
        command(book, Command("t"), caller=caller, policy=mailbox(**bounds))  # type: ignore[arg-type]
    return book


def poll(book: Book, caller: Caller, raw: bool, hold: float = 10.0) -> object:
    return book.poll(caller, PollRequest(0, None, None, 0, 5000, hold, raw), "ticket", 0.0)


def sizes(book: Book) -> dict[str, int]:
    return {each.reader: each.bytes for each in book.statistics(0.0)}


def test_frames_count_where_they_were_asked_for_and_nowhere_else() -> None:
    book = book_of(ME, OTHER)
    poll(book, ME, True)
    book.publish("t", None, 1, 10, "x", 0.0, beside=100)
    assert sizes(book) == {"me": 110, "other": 10}


def test_frames_are_not_counted_any_more_when_they_are_not_asked_for() -> None:
    book = book_of(ME)
    poll(book, ME, True)
    assert book.any_raw
    poll(book, ME, False)
    assert not book.any_raw
    book.publish("t", None, 1, 10, "x", 0.0, beside=100)
    assert sizes(book) == {"me": 10}


def test_a_held_poll_is_answered_in_the_form_it_asked_for() -> None:
    for raw in (True, False):
        book = book_of(ME)
        assert poll(book, ME, raw) is None
        book.publish("t", None, 1, 10, "x", 0.0)
        (answered,) = book.events()
        assert isinstance(answered, Answered)
        assert answered.raw is raw


def test_a_mailbox_that_blocks_counts_frames_too() -> None:
    book = book_of(ME, max_bytes=150, when_full="block")
    poll(book, ME, True)
    book.publish("t", None, 1, 10, "x", 0.0, beside=100)
    assert book.would_block("t", None, 10, 100) == ("me",)
    assert book.publish("t", None, 2, 10, "x", 0.0, beside=100) == ("me",)
    poll(book, ME, False)
    assert book.would_block("t", None, 10, 100) == ()


def test_a_mailbox_that_is_gone_is_raw_no_more() -> None:
    book = book_of(ME)
    poll(book, ME, True)
    assert book.close(ME, FIRST)
    assert not book.any_raw
