from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.progress import Progress
from pzc.protocol.errors import LocalProtocolError

from tests.effort import many


class Reading(RuleBasedStateMachine):
    """Progress beside a plain set of what is held."""

    @initialize(after=st.integers(0, 3))
    def start(self, after: int) -> None:
        self.progress = Progress(after)
        self.after = self.received = after
        self.held: set[int] = set()

    @rule(evicted=st.integers(0, 3), count=st.integers(0, 4))
    def receive(self, evicted: int, count: int) -> None:
        first = self.received + 1 + evicted
        self.progress.receive(first, count)
        self.received = first + count - 1
        self.held |= set(range(first, first + count))

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 100))
    def done(self, which: int) -> None:
        number = sorted(self.held)[which % len(self.held)]
        self.held.remove(number)
        self.progress.done(number)
        with pytest.raises(LocalProtocolError):
            self.progress.done(number)

    @rule(back=st.integers(0, 5))
    def done_upto(self, back: int) -> None:
        number = max(self.received - back, self.after)
        self.progress.done_upto(number)
        self.held = {each for each in self.held if each > number}

    @rule(numbers=st.lists(st.integers(0, 40)))
    def many_are_done_and_others_change_nothing(self, numbers: list[int]) -> None:
        if hasattr(self, "progress"):
            self.progress.done_many(numbers)
            self.held -= set(numbers)

    @rule(first=st.integers(0, 40), count=st.integers(0, 10))
    def a_run_is_done_as_far_as_it_is_held(self, first: int, count: int) -> None:
        if hasattr(self, "progress"):
            self.progress.done_run(first, first + count)
            self.held -= set(range(first, first + count + 1))

    @rule(number=st.integers(0, 30))
    def what_is_not_held_cannot_be_done(self, number: int) -> None:
        if number not in self.held:
            with pytest.raises(LocalProtocolError):
                self.progress.done(number)

    @rule(beyond=st.integers(1, 3))
    def what_never_came_cannot_be_done(self, beyond: int) -> None:
        with pytest.raises(LocalProtocolError):
            self.progress.done_upto(self.received + beyond)

    @invariant()
    def acknowledged_is_all_below_the_oldest_one_held(self) -> None:
        if hasattr(self, "progress"):
            assert self.progress.received == self.received
            assert self.progress.pending == len(self.held)
            assert self.progress.acknowledged == min(self.held, default=self.received + 1) - 1


TestReading = Reading.TestCase
TestReading.settings = settings(max_examples=many(100), stateful_step_count=30)
