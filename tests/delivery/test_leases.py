from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.leases import BlockState, LeaseLedger
from pzc.protocol.errors import LocalProtocolError

from tests.effort import many

BLOCKS = st.integers(1, 4)
HOLDERS = st.sampled_from("abc")
FREE, WRITING, LIVE, RETIRED = BlockState


class Ring(RuleBasedStateMachine):
    """A ledger beside a plain set of leases (block, holder)."""

    @initialize()
    def start(self) -> None:
        self.ledger = LeaseLedger()
        self.states: dict[int, BlockState] = {}
        self.leases: set[tuple[int, str]] = set()

    def readers(self, block: int) -> set[str]:
        return {holder for each, holder in self.leases if each == block}

    def possible(self, possible: bool, action: Callable[[], object]) -> bool:
        if not possible:
            with pytest.raises(LocalProtocolError, match="cannot be"):
                action()
        return possible

    @rule(block=BLOCKS)
    def begin(self, block: int) -> None:
        if self.possible(self.states.get(block, FREE) is FREE, lambda: self.ledger.begin(block)):
            self.ledger.begin(block)
            self.states[block] = WRITING

    @rule(block=BLOCKS, holders=st.sets(HOLDERS))
    def publish(self, block: int, holders: set[str]) -> None:
        writing = self.states.get(block) is WRITING
        if self.possible(writing, lambda: self.ledger.publish(block, holders)):
            assert self.ledger.publish(block, iter(holders)) is bool(holders)
            self.states[block] = LIVE if holders else FREE
            self.leases |= {(block, holder) for holder in holders}

    @rule(block=BLOCKS, holder=HOLDERS)
    def lend(self, block: int, holder: str) -> None:
        if self.possible(self.states.get(block) is LIVE, lambda: self.ledger.lend(block, holder)):
            self.ledger.lend(block, holder)
            self.leases.add((block, holder))

    @rule(block=BLOCKS, holder=HOLDERS)
    def end(self, block: int, holder: str) -> None:
        held = (block, holder) in self.leases
        self.leases.discard((block, holder))
        free = held and self.states[block] is LIVE and not self.readers(block)
        assert self.ledger.end(block, holder) is free
        if free:
            self.states[block] = FREE

    @rule(holder=HOLDERS, reads=st.booleans())
    def gone(self, holder: str, reads: bool) -> None:
        held = {block for block, each in self.leases if each == holder}
        self.leases -= {(block, holder) for block in held}
        live = {block for block in held if self.states[block] is LIVE}
        retired = live if reads else set()
        freed = {block for block in live - retired if not self.readers(block)}
        told = self.ledger.gone(holder, reads)
        assert [sorted(each) for each in told] == [sorted(freed), sorted(retired)]
        self.states |= dict.fromkeys(freed, FREE) | dict.fromkeys(retired, RETIRED)

    @precondition(lambda self: RETIRED in self.states.values() or FREE in self.states.values())
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        closed = [block for block, state in self.states.items() if state in (FREE, RETIRED)]
        block = data.draw(st.sampled_from(closed))
        self.ledger.forget(block)
        del self.states[block]
        self.leases = {lease for lease in self.leases if lease[0] != block}

    @invariant()
    def every_block_is_in_the_state_of_the_table(self) -> None:
        assert {block: self.ledger.state(block) for block in self.states} == self.states
        assert [self.ledger.count(state) for state in BlockState] == [
            list(self.states.values()).count(state) for state in BlockState
        ]

    @invariant()
    def the_leases_are_seen_alike_from_both_sides(self) -> None:
        assert {(b, h) for b in range(1, 5) for h in self.ledger.holders(b)} == self.leases
        assert {(b, h) for h in "abc" for b in self.ledger.held_by(h)} == self.leases

    @invariant()
    def no_block_is_free_while_a_holder_is_left(self) -> None:
        for block in range(1, 5):
            assert self.ledger.state(block) in (LIVE, RETIRED) or not self.ledger.holders(block)

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for holder in "abc":
            self.gone(holder, reads=True)
        assert not self.leases
        self.the_leases_are_seen_alike_from_both_sides()
        assert LIVE not in self.states.values()


TestRing = Ring.TestCase
TestRing.settings = settings(max_examples=many(120), stateful_step_count=40)


class Retired(RuleBasedStateMachine):
    """One block that a dead reader held, and whatever may happen to it afterwards short of `forget`."""

    @initialize(others=st.sets(HOLDERS))
    def start(self, others: set[str]) -> None:
        self.ledger = live(1, "dead", *others)
        self.ledger.gone("dead")

    @rule(holder=HOLDERS)
    def end(self, holder: str) -> None:
        assert not self.ledger.end(1, holder)

    @rule(holder=HOLDERS, reads=st.booleans())
    def gone(self, holder: str, reads: bool) -> None:
        assert self.ledger.gone(holder, reads) == ([], [])

    @rule()
    def use_again(self) -> None:
        for action in (self.ledger.begin, self.publish, self.lend):
            with pytest.raises(LocalProtocolError, match="it is retired"):
                action(1)

    def publish(self, block: int) -> None:
        self.ledger.publish(block, [])

    def lend(self, block: int) -> None:
        self.ledger.lend(block, "a")

    @invariant()
    def it_never_becomes_free(self) -> None:
        assert self.ledger.state(1) is RETIRED


TestRetired = Retired.TestCase
TestRetired.settings = settings(max_examples=many(50), stateful_step_count=20)


def live(block: int, *holders: str) -> LeaseLedger:
    ledger = LeaseLedger()
    ledger.begin(block)
    ledger.publish(block, holders)
    return ledger


def test_a_block_is_free_after_its_last_acknowledgement() -> None:
    ledger = live(1, "a", "b")
    assert [ledger.end(1, "a"), ledger.end(1, "b")] == [False, True]
    ledger.begin(1)


def test_an_acknowledgement_that_comes_twice_frees_nothing_of_others() -> None:
    ledger = live(1, "a", "b")
    assert [ledger.end(1, "a"), ledger.end(1, "a")] == [False, False]
    assert ledger.holders(1) == {"b"}


def test_what_a_dead_reader_held_is_retired_and_the_rest_is_not() -> None:
    ledger = live(1, "a", "b")
    ledger.begin(2)
    ledger.publish(2, ["b"])
    assert ledger.gone("a") == ([], [1])
    assert (ledger.state(2), ledger.holders(1)) == (LIVE, {"b"})


def test_a_reader_that_surely_has_no_view_leaves_its_blocks_free() -> None:
    assert live(1, "a").gone("a", reads=False) == ([1], [])


def test_a_block_without_readers_is_free_at_once() -> None:
    ledger = LeaseLedger()
    ledger.begin(1)
    assert not ledger.publish(1, [])
    assert ledger.state(1) is FREE


def test_a_closed_block_leaves_nothing_behind() -> None:
    ledger = live(1, "a", "b")
    ledger.gone("a")
    ledger.forget(1)
    assert (ledger.state(1), ledger.held_by("b"), ledger.holders(1)) == (None, [], frozenset())
    assert not ledger.end(1, "b")


@pytest.mark.parametrize("published", [True, False])
def test_a_block_in_use_cannot_be_forgotten(published: bool) -> None:
    ledger = LeaseLedger()
    ledger.begin(1)
    if published:
        ledger.publish(1, ["a"])
    with pytest.raises(LocalProtocolError, match=r"block 1 cannot be forgotten: it is (live|writing)"):
        ledger.forget(1)
