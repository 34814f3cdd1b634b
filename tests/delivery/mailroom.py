"""A publisher's mailboxes and short words for what is asked of them."""

from __future__ import annotations

from typing import Any

from pzc.delivery.mail import (
    Answered,
    Applied,
    Caller,
    Command,
    CommandRequest,
    Commands,
    PollRequest,
    Position,
    Refusal,
)
from pzc.delivery.mailboxes import Mailboxes
from pzc.delivery.policies import Policy, mailbox

T = 300.0
FIRST = Position(7, 1)
ME = Caller("me")
OLD, NEW = Caller("old", "archive"), Caller("new", "archive")
Book = Mailboxes[Any, str]


def unknown(epoch: int = 7) -> Refusal:
    return Refusal("unknown subscriber", epoch)


def command(
    book: Book,
    *commands: Command,
    caller: Caller = ME,
    number: int = 1,
    position: Position | None = None,
    policy: Policy | None = None,
    begins: bool = False,
    ends: bool = False,
) -> Any:
    batch = Commands(number, commands, policy or mailbox(), begins, ends)
    return book.command(caller, CommandRequest(0, position, batch), 0.0)


def poll(
    book: Book,
    after: int | None = None,
    acknowledged: int = 0,
    *,
    caller: Caller = ME,
    position: Position | None = FIRST,
    ticket: str = "ticket",
    now: float = 0.0,
    limit: int = 5000,
    hold: float = T,
) -> Any:
    return book.poll(caller, PollRequest(0, position, after, acknowledged, limit, hold), ticket, now)


def publish(book: Book, *sequences: int, topic: str = "t", key: str | None = None, size: int = 1) -> None:
    for number in sequences:
        assert book.publish(topic, key, number, size, number, 0.0) == ()


def subscribed(*commands: Command, policy: Policy | None = None, caller: Caller = ME) -> Book:
    book = Book(7)
    assert command(book, *(commands or [Command("t")]), policy=policy, caller=caller) == Applied(FIRST, 1)
    return book


def numbers(batch: Any) -> list[int]:
    return [message.payload for message in batch.messages]


def answers(book: Book) -> list[tuple[str, Any]]:
    return [(event.ticket, event.answer) for event in book.events() if isinstance(event, Answered)]


def tickets(book: Book) -> list[str]:
    return [ticket for ticket, _ in answers(book)]
