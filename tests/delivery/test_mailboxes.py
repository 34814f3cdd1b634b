from __future__ import annotations

from collections.abc import Callable

import pytest

from pzc.delivery.mail import (
    ALL,
    Answered,
    Applied,
    Batch,
    Caller,
    Command,
    CommandRequest,
    Commands,
    Lost,
    Outdated,
    Position,
    Refusal,
    Room,
)
from pzc.delivery.mailboxes import Mailboxes
from pzc.delivery.policies import Policy, drop, mailbox
from pzc.protocol import limits
from pzc.protocol.errors import PolicyRefused, RemoteProtocolError
from pzc.protocol.limits import Limits

from tests.delivery.mailroom import (
    FIRST,
    ME,
    Book,
    T,
    answers,
    command,
    numbers,
    poll,
    publish,
    subscribed,
    unknown,
)

GRACE = Limits().mail_grace


def test_what_was_published_before_the_subscription_is_not_delivered() -> None:
    book = Book(7)
    publish(book, 1)
    command(book, Command("t"))
    publish(book, 2)
    assert numbers(poll(book)) == [2]


def test_a_payload_is_shared_by_all_mailboxes() -> None:
    book = subscribed()
    command(book, Command("t"), caller=Caller("other"))
    payload = object()
    book.publish("t", None, 1, 1, payload, 0.0)
    mine, others = poll(book), poll(book, caller=Caller("other"), position=Position(7, 2))
    assert mine.messages[0] is others.messages[0]
    assert mine.messages[0].payload is payload


def test_a_message_that_several_subscriptions_want_comes_once() -> None:
    book = subscribed(Command("t"), Command("t", "k"), Command(ALL))
    publish(book, 1, key="k")
    assert numbers(poll(book)) == [1]


def test_a_poll_is_held_until_something_is_published_and_then_gets_all_there_is() -> None:
    book = subscribed()
    assert poll(book) is None
    publish(book, 1, 2)
    assert [(ticket, numbers(batch)) for ticket, batch in answers(book)] == [("ticket", [1, 2])]
    assert book.events() == []


def test_a_poll_repeated_gets_the_same_again() -> None:
    book = subscribed()
    publish(book, 1, 2, 3)
    assert poll(book) == poll(book)
    assert numbers(poll(book, after=2, acknowledged=1)) == [3]
    assert numbers(poll(book, after=1, acknowledged=1)) == [2, 3]


def test_a_poll_before_its_subscription_opens_the_mailbox() -> None:
    book = Book(7)
    assert poll(book, position=None) is None
    assert command(book, Command("t")) == Applied(FIRST, 1)
    publish(book, 1)
    assert [numbers(batch) for _, batch in answers(book)] == [[1]]


def test_a_second_poll_flushes_the_first() -> None:
    book = subscribed()
    poll(book, ticket="first")
    assert poll(book, ticket="second") is None
    assert book.events() == [Answered("first", Batch(FIRST, 0, 1, []))]


def test_a_poll_for_nothing_is_held_whatever_is_published() -> None:
    book = subscribed()
    poll(book, limit=0)
    publish(book, 1)
    assert book.events() == []


@pytest.mark.parametrize(("after", "acknowledged"), [(3, 0), (2, 3), (-1, 0), (0, -1)])
def test_what_was_never_sent_cannot_be_acknowledged(after: int, acknowledged: int) -> None:
    book = subscribed()
    publish(book, 1, 2)
    poll(book)
    publish(book, 3)
    assert poll(book, after, acknowledged) == Refusal("beyond", 7)
    assert book.statistics(0.0)[0].waiting == 3


@pytest.mark.parametrize("position", [Position(6, 1), Position(7, 2)])
def test_an_acknowledgement_of_another_numbering_is_refused(position: Position) -> None:
    book = subscribed()
    publish(book, 1)
    poll(book)
    assert poll(book, 1, 1, position=position) == unknown()
    assert book.statistics(0.0)[0].waiting == 1


# Commands


def test_a_batch_repeated_gets_the_same_answer_and_changes_nothing() -> None:
    book = subscribed(Command("t"))
    assert command(book, Command("t", None, False)) == Applied(FIRST, 1)
    publish(book, 1)
    assert numbers(poll(book)) == [1]


def test_an_outdated_batch_is_ignored_and_told() -> None:
    book = subscribed()
    command(book, Command("t"), number=3)
    assert command(book, Command("t", None, False), number=2) == Outdated(FIRST, 3)
    assert len(book.interests) == 1


def test_the_last_word_in_a_batch_holds() -> None:
    book = subscribed(
        Command("t", "k"), Command("t", "k", False), Command("u", "k", False), Command("u", "k")
    )
    publish(book, 1, key="k")
    publish(book, 2, topic="u", key="k")
    assert numbers(poll(book)) == [2]


def test_unsubscribing_erases_what_nobody_wants_any_more() -> None:
    book = subscribed(Command("t"), Command("t", "k"), Command(ALL))
    assert len(book.interests) == 3
    gone = [Command("t", None, False), Command("t", "k", False), Command(ALL, None, False)]
    command(book, *gone, number=2)
    assert len(book.interests) == 0


def test_what_is_not_said_again_in_a_series_is_gone_when_it_ends_and_the_rest_misses_nothing() -> None:
    book = subscribed(Command("a"), Command("b"), Command("c"))
    command(book, Command("a"), number=2, begins=True)
    publish(book, 1, topic="c")
    command(book, Command("c"), number=3, ends=True)
    publish(book, 2, topic="b")
    publish(book, 3, topic="a")
    assert numbers(poll(book)) == [1, 3]


@pytest.mark.parametrize(
    "batch",
    [
        Commands(0, (), mailbox()),
        Commands(1, (), drop()),
        Commands(1, [Command(ALL, "key")], mailbox()),
        Commands(1, [Command("t")] * (limits.current.mail_commands + 1), mailbox()),
    ],
)
def test_a_batch_that_cannot_be_opens_nothing(batch: Commands) -> None:
    book = Book(7)
    with pytest.raises(RemoteProtocolError):
        book.command(ME, CommandRequest(0, None, batch), 0.0)
    assert len(book) == 0


@pytest.mark.parametrize("policy", [mailbox(11), mailbox(10, 101), mailbox(10, 100, keep=61)])
def test_a_mailbox_larger_than_the_publisher_allows_is_refused(policy: Policy) -> None:
    book: Book = Mailboxes(7, largest=mailbox(10, 100, keep=60))
    with pytest.raises(PolicyRefused, match="no mailbox so large"):
        command(book, Command("t"), policy=policy)
    assert len(book) == 0


@pytest.mark.parametrize("bound", ["mailboxes", "mailboxes_per_key"])
def test_mailboxes_are_bounded(bound: str, timings: Callable[..., None]) -> None:
    timings(**{bound: 1})
    book: Book = Mailboxes(7)
    assert command(book, Command("t"), Command("u")) == Applied(FIRST, 1)
    assert poll(book, position=None, caller=Caller("other")) == Refusal("no room", 7)
    other = poll(book, position=None, caller=Caller("other", None, "another key"))
    assert other == (Refusal("no room", 7) if bound == "mailboxes" else None)


def test_a_command_without_room_is_refused_by_itself_and_the_same_when_it_comes_again() -> None:
    book: Book = Mailboxes(7, max_subscriptions=2)
    said = Command("t"), Command("t", "k"), Command("u"), Command("t"), Command("t", "k", False), Command("v")
    for _ in range(2):
        assert command(book, *said) == Applied(FIRST, 1, ((2, "no room"),))
        assert [bool(book.interests.matching(topic, None)) for topic in "tuv"] == [True, False, True]


# Room


def test_a_full_mailbox_that_blocks_lets_nothing_be_published_to_anybody() -> None:
    book = subscribed(policy=mailbox(1, when_full="block"))
    command(book, Command("t"), caller=Caller("other"))
    publish(book, 1)
    assert book.would_block("t", None, 1) == book.publish("t", None, 2, 1, 2, 0.0) == ("me",)
    assert [each.waiting for each in book.statistics(0.0)] == [1, 1]
    publish(book, 1, topic="u")


def test_room_is_told_once_when_there_is_enough_of_it() -> None:
    book = subscribed(policy=mailbox(9, 10, "block"))
    publish(book, 1, 2, 3, size=3)
    poll(book)
    assert book.would_block("t", None, 5) == ("me",)
    poll(book, 3, 1)
    assert Room("me") not in book.events()
    poll(book, 3, 2)
    assert book.events().count(Room("me")) == 1
    poll(book, 3, 3)
    assert Room("me") not in book.events()


@pytest.mark.parametrize("end", ["close", "die", "become lossy"])
def test_room_is_told_when_a_reader_blocks_no_longer(end: str) -> None:
    book = subscribed(policy=mailbox(1, when_full="block"))
    publish(book, 1)
    book.would_block("t", None, 1)
    if end == "close":
        book.close(ME, FIRST)
    elif end == "die":
        book.tick(T + GRACE)
    else:
        command(book, number=2)
    assert Room("me") in book.events()
    publish(book, 2)


def test_a_reader_that_receives_and_acknowledges_late_loses_nothing() -> None:
    book = subscribed(Command("a"), Command("b"), policy=mailbox(2))
    for number in range(1, 20):
        publish(book, number, topic="a")
        publish(book, number, topic="b")
        batch = poll(book, after=2 * number - 2)
        assert (numbers(batch), batch.lost) == ([number, number], ())


def test_one_stalled_reader_costs_no_other_a_message() -> None:
    book = subscribed(policy=mailbox(2))
    command(book, Command("t"), caller=Caller("other"))
    publish(book, 1, 2, 3, 4)
    assert numbers(poll(book, caller=Caller("other"), position=Position(7, 2))) == [1, 2, 3, 4]
    stalled = poll(book)
    assert (numbers(stalled), stalled.lost) == ([3, 4], (Lost(1, 2, "t", 1, 2, 2),))
