"""Commands through a wire that drops, repeats and reorders requests and answers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import PolicyRefused
from pzc.delivery.collector import Collector
from pzc.delivery.mail import Command, CommandRequest, Declined
from pzc.delivery.mailboxes import Mailboxes
from pzc.delivery.orders import Orders
from pzc.delivery.policies import mailbox

from tests.delivery.mailroom import ME


class Wire:
    """A reader, its publisher, and what is on its way between them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.book: Mailboxes[int, Any] = Mailboxes(7)
        self.collector: Collector[int] = Collector(mailbox(), 0.0)
        self.moving: list[tuple[Any, Any]] = []  # request, and its answer once it has one

    def send(self, copies: int = 1) -> None:
        self.now += 0.1
        for request in self.collector.requests(self.now):
            self.moving += [(request, None)] * copies

    def arrive(self, which: int) -> None:
        request, answer = self.moving.pop(which)
        if answer is not None:
            self.collector.answered(request, answer, self.now)
        elif isinstance(request, CommandRequest):
            self.moving.append((request, self.book.command(ME, request, self.now)))
        else:
            self.book.poll(ME, request, request, self.now)  # held: nothing is ever published

    def heal(self) -> None:
        for _ in range(100):
            self.send()
            while self.moving:
                self.arrive(0)

    def subscribed(self) -> dict[str, bool]:
        return {
            f"key {number}": bool(self.book.interests.matching("t", f"key {number}")) for number in range(50)
        }


@pytest.mark.parametrize("seed", range(5))
def test_after_2000_commands_through_a_bad_wire_the_last_one_on_each_key_holds(seed: int) -> None:
    chance = Random(seed)
    wire = Wire()
    last = {f"key {number}": False for number in range(50)}
    for _ in range(2000):
        key, wanted = f"key {chance.randrange(50)}", chance.random() < 0.5
        (wire.collector.subscribe if wanted else wire.collector.unsubscribe)("t", key)
        last[key] = wanted
        wire.send(copies=chance.choice((1, 2)))
        while wire.moving and chance.random() < 0.7:
            which = chance.randrange(len(wire.moving))
            if chance.random() < 0.3:
                wire.moving.pop(which)
            else:
                wire.arrive(which)
    wire.heal()
    assert wire.subscribed() == last
    assert wire.collector.settled
    assert len(wire.book.interests) == sum(last.values())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.sampled_from(["say", "lose", "forget"]))))
def test_batches_in_order_say_what_is_wanted(steps: list[tuple[str, bool, str]]) -> None:
    orders = Orders()
    wanted: dict[str, bool] = {}
    known: set[str] = set()

    def say() -> None:
        batch = orders.next(mailbox())
        if batch is not None:
            if batch.begins:
                known.clear()
            for topic, _, subscribe, _ in batch.commands:
                (known.add if subscribe else known.discard)(topic)
            orders.applied(batch.number)

    for topic, subscribe, then in steps:
        orders.order(topic, (None,), subscribe)
        wanted[topic] = subscribe
        if then == "say":
            say()
        elif then == "forget":
            known.clear()
            orders.forget()
        else:
            assert orders.next(mailbox()) is orders.next(mailbox())
    while not orders.settled:
        say()
    assert known == {topic for topic, subscribe in wanted.items() if subscribe}
    assert orders.next(mailbox()) is None


def test_the_publisher_s_word_on_another_batch_settles_nothing() -> None:
    orders = Orders()
    orders.order("t", (None,), True)
    flying = orders.next(mailbox())
    orders.applied(7)
    orders.outdated(0)
    assert orders.next(mailbox()) is flying
    assert not orders.settled


def test_more_keys_than_a_mailbox_may_have_change_nothing(timings: Callable[..., None]) -> None:
    timings(mail_subscriptions=5)
    orders = Orders()
    orders.order("t", ["a", "b", "c"], True)
    with pytest.raises(PolicyRefused, match="at most 5 topics and keys, not 6"):
        orders.order("t", ["c", "d", "e", "f"], True)
    orders.order("t", ["c", "d", "e"], True)
    orders.order("t", ["a"], False)
    orders.order("u", [None], True)
    batch = orders.next(mailbox())
    assert batch is not None
    assert len(orders) == 5
    assert {(topic, key) for topic, key, subscribe, _ in batch.commands if subscribe} == {
        ("t", "b"), ("t", "c"), ("t", "d"), ("t", "e"), ("u", None),
    }  # fmt: skip


def test_more_commands_than_a_batch_holds_go_in_several(timings: Callable[..., None]) -> None:
    timings(mail_commands=4)
    orders = Orders()
    orders.order("t", [str(number) for number in range(6)], True)
    orders.order("u", [None, "a"], True)
    said, sizes, ends = list[tuple[str, str | None]](), list[int](), list[bool]()
    while (batch := orders.next(mailbox())) is not None:
        said += [(topic, key) for topic, key, *_ in batch.commands]
        sizes.append(len(batch.commands))
        ends.append(batch.ends)
        orders.applied(batch.number)
    assert said == [*(("t", str(number)) for number in range(6)), ("u", None), ("u", "a")]
    assert (sizes, ends) == ([4, 4], [False, True])


def test_what_was_refused_is_wanted_no_longer_unless_it_was_said_again() -> None:
    orders = Orders()
    orders.order("t", ("a", "b", "c"), True)
    orders.next(mailbox())
    orders.order("t", ("b",), True)
    assert orders.applied(1, [(0, "no room"), (1, "no room"), (9, "no room")]) == [
        Declined(Command("t", "a"), "no room")
    ]
    assert orders.applied(1, [(2, "no room")]) == []
    orders.forget()
    batch = orders.next(mailbox())
    assert batch is not None
    assert [command.key for command in batch.commands] == ["b", "c"]
