from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.policies import Inbox, Policy, block, drop, latest, mailbox
from pzc.protocol.errors import ConfigError, PolicyRefused


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
TestReader.settings = settings(max_examples=150, stateful_step_count=40)


def offered(policy: Policy, count: int) -> Inbox[int]:
    inbox: Inbox[int] = Inbox(policy)
    for number in range(count):
        inbox.offer(number)
    return inbox


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
    assert mailbox() == Policy("mailbox", 10_000, max_bytes=512 << 20, when_full="drop_oldest")


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


def test_a_mailbox_without_room_for_a_byte_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1 byte, not 0"):
        mailbox(max_bytes=0)


def test_an_unknown_behaviour_of_a_full_mailbox_is_refused() -> None:
    with pytest.raises(ConfigError, match="'explode', expected drop_oldest or block"):
        mailbox(when_full="explode")
    assert mailbox(when_full="block").when_full == "block"


@pytest.mark.parametrize("policy", [block(), mailbox()])
def test_a_policy_that_loses_nothing_is_not_offered_by_an_inbox(policy: Policy) -> None:
    with pytest.raises(PolicyRefused, match=f"policy {policy.name} is not offered"):
        Inbox(policy)
