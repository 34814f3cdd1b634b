from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Generic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.claim_queue import UnderWay
from pzc.delivery.claims import Entry, M
from pzc.delivery.receipts import Receipts
from pzc.protocol.errors import RemoteProtocolError

from tests.effort import many

TIMEOUT = 20


class Sender(UnderWay[Entry[M]], Generic[M]):
    """What is under way, as plain messages."""

    def send(self, message: M) -> int:
        entry = Entry(message, 1, 0, ())
        self.sent((entry,))
        return entry.position

    def acknowledged(self, upto: int, others: Iterable[int] = ()) -> list[M]:
        return [entry.message for entry in self.done(upto, others)]

    def repeats(self, position: int) -> list[tuple[int, M]]:
        return [(entry.position, entry.message) for entry in self.after(position)]

    def left(self) -> list[M]:
        return [entry.message for entry in self.all()]


def sent(count: int) -> Sender[str]:
    subscriber: Sender[str] = Sender()
    for number in range(1, count + 1):
        assert subscriber.send(str(number)) == number
    return subscriber


def arrived(count: int) -> Receipts[str]:
    inlet: Receipts[str] = Receipts()
    for number in range(1, count + 1):
        assert inlet.arrived(number, 1, "t") == 0
    return inlet


class Connections(RuleBasedStateMachine):
    """A link over connections that break at any moment, with what is on them in both directions."""

    @initialize()
    def start(self) -> None:
        self.subscriber: Sender[int] = Sender()
        self.inlet: Receipts[str] = Receipts()
        self.forth: list[tuple[int, int]] = []
        self.back: list[tuple[int, int, list[int]]] = []
        self.published = 0
        self.delivered: list[int] = []
        self.held: list[int] = []
        self.acknowledged: list[int] = []

    @rule()
    def publish(self) -> None:
        self.published += 1
        self.forth.append((self.subscriber.send(self.published), self.published))

    @precondition(lambda self: self.forth)
    @rule()
    def bring(self) -> None:
        number, item = self.forth.pop(0)
        if not self.inlet.arrived(number, 1, "t"):
            self.delivered.append(item)
            self.held.append(number)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.inlet.done([self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))])

    @rule()
    def report(self) -> None:
        told = self.inlet.report()
        if told is not None:
            self.back.append(told)

    @precondition(lambda self: self.back)
    @rule()
    def hear(self) -> None:
        received, upto, others = self.back.pop(0)
        self.subscriber.received(received)
        self.acknowledged += self.subscriber.acknowledged(upto, others)

    @rule()
    def break_and_resume(self) -> None:
        self.back.clear()
        self.forth = self.subscriber.repeats(self.inlet.received)
        self.inlet.repeat()

    @rule()
    def die_without_a_word(self) -> None:
        self.back.clear()
        self.forth.clear()
        self.break_and_resume()

    @invariant()
    def nothing_is_delivered_twice_or_out_of_order(self) -> None:
        assert self.delivered == list(range(1, len(self.delivered) + 1))
        assert self.inlet.received == len(self.delivered)
        assert len(self.inlet) == len(self.held)

    @invariant()
    def every_item_is_waiting_or_was_acknowledged_once(self) -> None:
        assert sorted(self.acknowledged + self.subscriber.left()) == list(range(1, self.published + 1))
        assert len(self.subscriber) == len(self.subscriber.left())

    @invariant()
    def what_is_held_is_not_acknowledged(self) -> None:
        assert not set(self.held) & set(self.acknowledged)

    def teardown(self) -> None:
        if not hasattr(self, "subscriber"):
            return
        while self.forth:
            self.bring()
        while self.held:
            self.inlet.done([self.held.pop()])
        self.report()
        while self.back:
            self.hear()
        assert self.delivered == list(range(1, self.published + 1))
        assert (self.subscriber.left(), self.inlet.report()) == ([], None)


TestConnections = Connections.TestCase
TestConnections.settings = settings(max_examples=many(150), stateful_step_count=50)


@given(st.data())
def test_numbers_in_any_order_give_every_item_once(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 30))
    number = st.integers(0, count)
    others = st.lists(st.integers(1, count), max_size=10) if count else st.just([])
    subscriber, items = sent(count), list[str]()
    for upto, beside in data.draw(st.lists(st.tuples(number, others), max_size=10)):
        done = subscriber.acknowledged(upto, beside)
        assert done == sorted(done, key=int)
        items += done
    items += subscriber.acknowledged(count, [])
    assert sorted(items, key=int) == [str(number) for number in range(1, count + 1)]


@given(st.permutations(range(1, 13)), st.integers(1, 12))
def test_messages_done_in_any_order_are_each_told_once(order: list[int], every: int) -> None:
    subscriber, inlet, items = sent(12), arrived(12), list[str]()
    for index, number in enumerate(order, start=1):
        inlet.done([number])
        if index % every == 0 or index == len(order):
            told = inlet.report()
            assert told is not None
            items += subscriber.acknowledged(told[1], told[2])
            assert sorted(items, key=int) == [str(n) for n in sorted(order[:index])]
    assert (len(items), len(subscriber)) == (12, 0)


def test_an_acknowledgement_far_above_what_is_left_gives_just_that() -> None:
    subscriber = sent(1000)
    subscriber.acknowledged(0, [number for number in range(1, 1001) if number % 100])
    assert subscriber.acknowledged(900) == [str(number) for number in range(100, 1000, 100)]
    assert subscriber.left() == ["1000"]


@pytest.mark.parametrize(("upto", "others"), [(4, []), (-1, []), (3, [4]), (3, [2, -1]), (0, [1, 2, 9])])
def test_numbers_that_were_never_sent_are_refused_and_change_nothing(upto: int, others: list[int]) -> None:
    subscriber = sent(3)
    with pytest.raises(RemoteProtocolError, match="has had 3 so far"):
        subscriber.acknowledged(upto, others)
    assert subscriber.left() == ["1", "2", "3"]


@pytest.mark.parametrize("number", [-1, 4])
def test_a_reader_cannot_have_received_what_was_never_sent(number: int) -> None:
    with pytest.raises(RemoteProtocolError):
        sent(3).received(number)
    with pytest.raises(RemoteProtocolError):
        sent(3).after(number)


def test_what_the_reader_surely_has_is_not_sent_again() -> None:
    subscriber = sent(4)
    subscriber.received(2)
    assert subscriber.repeats(1) == [(3, "3"), (4, "4")]


def test_what_is_sent_again_keeps_its_number() -> None:
    subscriber = sent(4)
    subscriber.acknowledged(0, [3])
    assert subscriber.repeats(1) == [(2, "2"), (4, "4")]
    assert subscriber.next == 5


def test_messages_that_other_threads_finish_during_a_report_are_each_told() -> None:
    count, workers = 20_000, 4
    subscriber, inlet, items = sent(count), arrived(count), list[str]()

    def finish(first: int) -> None:
        for number in range(first, count + 1, workers):
            inlet.done([number])

    threads = [threading.Thread(target=finish, args=(1 + n,)) for n in range(workers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if (told := inlet.report()) is not None:
            items += subscriber.acknowledged(told[1], told[2])
    for thread in threads:
        thread.join(TIMEOUT)
    while (told := inlet.report()) is not None:
        items += subscriber.acknowledged(told[1], told[2])
    assert (len(items), len(subscriber)) == (count, 0)
