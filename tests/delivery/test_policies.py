from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.policies import (
    Inbox,
    Policy,
    block,
    drop,
    latest,
    mailbox,
)
from pzc.protocol.errors import ConfigError

from tests.effort import many


class Reader(RuleBasedStateMachine):
    """An inbox beside the plain list of what should be in it."""

    @initialize(policy=st.builds(drop, st.integers(1, 4)) | st.builds(latest, st.integers(1, 4)))
    def start(self, policy: Policy) -> None:
        self.inbox: Inbox[int] = Inbox(policy)
        self.model: list[int] = []
        self.offered = self.taken = self.lost = 0

    @rule()
    def offer(self) -> None:
        self.offered += 1
        full = len(self.model) == self.inbox.policy.bound
        refused = full and self.inbox.policy.name == "drop"
        if not refused:
            self.model = [*self.model[full:], self.offered]
        assert self.inbox.offer(self.offered) is not refused

    @precondition(lambda self: self.model)
    @rule()
    def take(self) -> None:
        self.taken += 1
        assert self.inbox.take() == self.model.pop(0)

    @precondition(lambda self: not self.model)
    @rule()
    def take_from_nothing(self) -> None:
        with pytest.raises(IndexError):
            self.inbox.take()

    @rule(count=st.integers(0, 5))
    def lose(self, count: int) -> None:
        self.lost += count
        self.inbox.lose(count)

    @rule(divisor=st.integers(1, 3))
    def forget(self, divisor: int) -> None:
        self.model = [item for item in self.model if item % divisor]
        self.inbox.forget(lambda item: not item % divisor)

    @rule()
    def clear(self) -> None:
        self.model = []
        self.inbox.clear()

    @invariant()
    def received_dropped_and_pending_are_all_that_was_offered(self) -> None:
        inbox = self.inbox
        assert inbox.received + inbox.dropped + len(inbox) == self.offered + self.lost
        assert (inbox.received, len(inbox)) == (self.taken, len(self.model))

    @invariant()
    def memory_is_bounded(self) -> None:
        assert len(self.inbox) <= self.inbox.policy.bound


TestReader = Reader.TestCase
TestReader.settings = settings(max_examples=many(150), stateful_step_count=40)


def offered(policy: Policy, count: int) -> Inbox[int]:
    inbox: Inbox[int] = Inbox(policy)
    for number in range(count):
        inbox.offer(number)
    return inbox


class Sized(NamedTuple):
    number: int
    size: int


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("policy", "left"), [(drop(10), [0, 1, 3]), (latest(10), [2, 3])])
def test_a_bound_in_bytes_holds_beside_that_of_the_policy(
    policy: Policy, left: list[int], together: bool
) -> None:
    inbox: Inbox[Sized] = Inbox(policy)
    inbox.weigh(10)
    items = [Sized(number, size) for number, size in enumerate((3, 4, 9, 1))]
    if together:
        inbox.offer_all(items, 17)
    else:
        for item in items:
            inbox.offer(item)
    assert (inbox.dropped, [inbox.take().number for _ in range(len(inbox))]) == (4 - len(left), left)
    assert inbox.offer(Sized(5, 100))  # of any size, when nothing else waits


def test_drop_keeps_the_first() -> None:
    inbox = offered(drop(3), 10)
    assert [inbox.take() for _ in range(3)] == [0, 1, 2]
    assert (inbox.received, inbox.dropped) == (3, 7)


def test_latest_keeps_the_last() -> None:
    inbox = offered(latest(3), 10)
    assert [inbox.take() for _ in range(3)] == [7, 8, 9]
    assert (inbox.received, inbox.dropped) == (3, 7)


def test_policies_have_the_documented_bounds() -> None:
    assert drop() == Policy("drop", 1000)
    assert latest() == Policy("latest", 1)
    assert block() == Policy("block", 32, timeout=30.0)
    assert mailbox() == Policy("mailbox", 10_000, max_bytes=512 << 20, when_full="drop_oldest", keep=300.0)


@pytest.mark.parametrize("make", [drop, latest, mailbox, lambda bound: block(slots=bound)])
@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_below_one_message_is_refused(make: Callable[[int], Policy], bound: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 1 message, not {bound}"):
        make(bound)


@pytest.mark.parametrize("timeout", [-0.1, float("nan")])
def test_a_negative_timeout_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigError, match="timeout of 0 seconds or more"):
        block(timeout)
    assert block(0).timeout == 0


@pytest.mark.parametrize("number", [1e4, 2.5, float("inf"), True, "10"])
@pytest.mark.parametrize("name", ["max_messages", "max_bytes"])
def test_a_bound_that_is_no_whole_number_is_refused(name: str, number: Any) -> None:
    with pytest.raises(ConfigError, match="a whole number"):
        mailbox(**{name: number})


@pytest.mark.parametrize("make", [lambda value: block(timeout=value), lambda value: mailbox(keep=value)])
def test_seconds_that_are_no_number_are_refused(make: Callable[[Any], Policy]) -> None:
    with pytest.raises(ConfigError, match="seconds"):
        make("10")


def test_a_mailbox_without_room_for_a_byte_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1 byte, not 0"):
        mailbox(max_bytes=0)


def test_an_unknown_behaviour_of_a_full_mailbox_is_refused() -> None:
    with pytest.raises(ConfigError, match="'explode', expected drop_oldest or block"):
        mailbox(when_full="explode")
    assert mailbox(when_full="block").when_full == "block"


@pytest.mark.parametrize("keep", [0, -1, float("nan"), float("inf")])
def test_a_mailbox_is_kept_for_some_time(keep: float) -> None:
    with pytest.raises(ConfigError, match="kept for more than 0 seconds"):
        mailbox(keep=keep)


@pytest.mark.parametrize("name", ["", "n" * 201, 5, b"archive", "\ud800"], ids=repr)
def test_a_mailbox_has_a_name_of_reasonable_length_or_none(name: Any) -> None:
    with pytest.raises(ConfigError, match="1 to 200 characters"):
        mailbox(name=name)
    assert mailbox(name="archive").durable == "archive"


def test_what_is_a_mailbox_s_belongs_to_no_other_policy() -> None:
    with pytest.raises(ConfigError, match="belong to a mailbox, not to drop"):
        Policy("drop", 1, keep=1.0)


def test_an_inbox_keeps_every_message_of_a_block() -> None:
    inbox = offered(block(slots=2), 5)
    assert [inbox.take() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert (inbox.received, inbox.dropped) == (5, 0)


def test_what_an_inbox_of_a_block_held_when_it_was_cleared_is_counted() -> None:
    inbox = offered(block(slots=2), 2)
    inbox.clear()
    assert (inbox.received, inbox.dropped, len(inbox)) == (0, 2, 0)


def test_an_inbox_takes_everything_out_of_a_mailbox() -> None:
    inbox: Inbox[int] = Inbox(mailbox(max_messages=1))
    inbox.offer_all(range(3))
    assert inbox.offer(3)
    assert (len(inbox), inbox.dropped) == (4, 0)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="'perhaps' is not known, expected one of drop, latest, block, mailbox"
    ):
        Policy("perhaps", 1)


def test_a_block_without_a_timeout_is_refused() -> None:
    with pytest.raises(ConfigError, match="block needs a timeout"):
        Policy("block", 1)


@pytest.mark.parametrize(("policy", "lossy"), [(drop(), 1), (latest(), 1), (block(), 0), (mailbox(), 0)])
def test_drop_and_latest_lose_messages_by_design(policy: Policy, lossy: bool) -> None:
    assert policy.lossy == lossy
