"""Commands: whatever is lost, repeated or comes late, the last word on each interest holds at the publisher."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.commands import Batch, Commands

from tests.effort import many


class Saying(RuleBasedStateMachine):
    """A reader, a connection that breaks, and a publisher that may be replaced."""

    @initialize()
    def start(self) -> None:
        self.commands: Commands[str] = Commands(3)
        self.wanted: dict[int, str] = {}
        self.known: dict[int, str] = {}
        self.applied, self.interest = 0, 0
        self.on_the_way: list[Batch[str]] = []

    @rule(count=st.integers(1, 5))
    def want(self, count: int) -> None:
        for _ in range(count):
            self.interest += 1
            self.wanted[self.interest] = f"topic {self.interest}"
            self.commands.want(self.interest, self.wanted[self.interest])

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        interest = data.draw(st.sampled_from(list(self.wanted)))
        del self.wanted[interest]
        self.commands.forget(interest)
        self.commands.forget(interest)

    @rule()
    def say(self) -> None:
        batch = self.commands.next()
        if batch is not None:
            assert 1 <= len(batch.commands) <= 3
            self.on_the_way.append(batch)
        assert self.commands.next() is None

    @rule()
    def break_connection(self) -> None:
        self.on_the_way.clear()
        self.commands.unsure()

    @precondition(lambda self: self.on_the_way)
    @rule(answered=st.booleans())
    def deliver(self, answered: bool) -> None:
        batch = self.on_the_way.pop(0)
        if batch.number > self.applied:
            self.applied = batch.number
            for interest, command in batch.commands.items():
                if command is None:
                    self.known.pop(interest, None)
                else:
                    self.known[interest] = command
        if answered:
            assert self.commands.applied(batch.number) == batch
            assert self.commands.applied(batch.number) is None
        else:
            self.break_connection()

    @rule()
    def replace_the_publisher(self) -> None:
        self.known.clear()
        self.on_the_way.clear()
        self.commands.anew()

    @invariant()
    def nothing_is_known_that_was_never_said(self) -> None:
        if hasattr(self, "known"):
            assert all(command == f"topic {interest}" for interest, command in self.known.items())

    def teardown(self) -> None:
        if not hasattr(self, "commands"):
            return
        self.break_connection()
        while (batch := self.commands.next()) is not None:
            self.on_the_way.append(batch)
            self.deliver(True)
        assert self.known == self.wanted


TestSaying = Saying.TestCase
TestSaying.settings = settings(max_examples=many(100), stateful_step_count=40)


def test_what_was_given_up_before_it_was_said_is_never_said() -> None:
    commands: Commands[str] = Commands(10)
    commands.want(1, "a")
    commands.forget(1)
    assert commands.next() is None
