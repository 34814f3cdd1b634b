from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.holders import Held, Holders
from pzc.protocol.errors import Refused
from pzc.protocol.message import Identity

from tests.effort import many

A, B, C = (Identity("", agent) for agent in "abc")
EVE = Identity("another key", A.agent)


def test_an_agent_of_the_same_id_with_another_key_is_another_agent() -> None:
    holders: Holders[str] = Holders()
    mine, hers = holders.hold(A, "lock", "unlock", 0), holders.hold(EVE, "stream", "close", 0)
    holders.touch(EVE, 1)
    assert holders.silent(1, 1) == [A]
    assert holders.gone(EVE) == [Held(hers, "stream", "close")]
    assert (holders.holding(A), holders.drop(mine)) == (True, True)


def test_an_agent_is_known_from_its_first_thing_to_its_last() -> None:
    holders: Holders[str] = Holders()
    first = holders.hold(A, "lock", "unlock", 0)
    second = holders.hold(A, "stream", "close", 1)
    assert (holders.holding(A), len(holders)) == (True, 2)
    holders.drop(first)
    assert holders.holding(A)
    holders.drop(second)
    assert (holders.holding(A), len(holders)) == (False, 0)


def test_a_dead_agent_leaves_what_to_release_oldest_first() -> None:
    holders: Holders[str] = Holders()
    first = holders.hold(A, "lock", "unlock", 0)
    holders.hold(B, "lock", "unlock b", 0)
    second = holders.hold(A, "stream", "close", 1)
    assert holders.gone(A) == [Held(first, "lock", "unlock"), Held(second, "stream", "close")]
    assert (holders.holding(A), holders.holding(B), len(holders)) == (False, True, 1)


def test_a_dead_agent_leaves_nothing_twice() -> None:
    holders: Holders[str] = Holders()
    ticket = holders.hold(A, "lock", "unlock", 0)
    holders.gone(A)
    assert holders.gone(A) == []
    assert not holders.drop(ticket)


def test_a_thing_is_dropped_once() -> None:
    holders: Holders[str] = Holders()
    ticket = holders.hold(A, "lock", "unlock", 0)
    assert holders.drop(ticket)
    assert not holders.drop(ticket)


def test_an_agent_that_holds_something_is_silent_from_the_limit_on() -> None:
    holders: Holders[str] = Holders()
    holders.hold(A, "lock", "unlock", 1)
    assert holders.next_due(0.75) == 1.75
    assert holders.silent(1.5, 0.75) == []
    assert holders.silent(1.75, 0.75) == [A]


def test_a_sign_of_life_ends_the_silence() -> None:
    holders: Holders[str] = Holders()
    holders.hold(A, "lock", "unlock", 1)
    holders.touch(A, 2)
    assert holders.silent(2.5, 0.75) == []


def test_holding_more_is_no_sign_of_life() -> None:
    holders: Holders[str] = Holders()
    holders.hold(A, "queued call", "remove", 1)
    holders.hold(A, "stream", "close", 2)
    assert holders.silent(2, 0.75) == [A]


def test_nobody_was_silent_while_whoever_asks_stood_still() -> None:
    holders: Holders[str] = Holders()
    holders.hold(A, "lock", "unlock", 0)
    holders.excuse(8.0, 9.0)
    assert (holders.silent(9, 4), holders.next_due(4)) == ([], 12)


def test_an_agent_that_holds_nothing_is_never_silent() -> None:
    holders: Holders[str] = Holders()
    holders.touch(A, 1)
    assert (holders.silent(100, 1), holders.next_due(1)) == ([], None)


def test_the_longest_silent_agent_comes_first() -> None:
    holders: Holders[str] = Holders()
    for now, agent in enumerate((A, B, C)):
        holders.hold(agent, "lock", "unlock", now)
    holders.touch(A, 3)
    assert holders.silent(10, 1) == [B, C, A]
    assert holders.next_due(1) == 2


def test_a_time_read_before_another_threads_makes_nobody_silent_too_soon() -> None:
    holders: Holders[str] = Holders()
    holders.hold(A, "lock", "unlock", 5)
    holders.touch(A, 3)
    assert holders.next_due(1) == 6


def test_too_many_agents_are_refused_and_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pzc.delivery.holders.MAX_AGENTS", 1)
    holders: Holders[str] = Holders()
    holders.hold(A, "stream", "close", 0)
    with pytest.raises(Refused, match="1 agents with this key hold something"):
        holders.hold(B, "stream", "close", 0)
    assert not holders.holding(B)
    holders.hold(A, "stream", "close", 0)
    holders.hold(EVE, "stream", "close", 0)
    holders.gone(A)
    holders.hold(B, "stream", "close", 0)


@given(now=st.floats(0, 1e9), limit=st.floats(0.01, 1e6))
def test_whoever_is_due_is_silent_when_it_is_due(now: float, limit: float) -> None:
    holders: Holders[str] = Holders()
    holders.hold(A, "lock", "unlock", now)
    due = holders.next_due(limit)
    assert due is not None
    assert holders.silent(due, limit) == [A]


AGENTS = [A, B, C, EVE]
AGENT = st.sampled_from(AGENTS)
LIMIT = 1.0


class Server(RuleBasedStateMachine):
    """A server whose clients hold, drop, fall silent and die, against a list of all that is held."""

    @initialize()
    def start(self) -> None:
        self.holders: Holders[int] = Holders()
        self.now = 0.0
        self.held: list[tuple[int, Identity]] = []  # ticket, agent; the ticket is what to release as well
        self.heard: dict[Identity, float] = {}
        self.used = 0

    def of(self, agent: Identity) -> list[int]:
        return [ticket for ticket, other in self.held if other == agent]

    @rule(quarters=st.integers(0, 8))
    def time_passes(self, quarters: int) -> None:
        self.now += quarters / 4

    @rule(agent=AGENT)
    def touch(self, agent: Identity) -> None:
        self.holders.touch(agent, self.now)
        if self.of(agent):
            self.heard[agent] = self.now

    @rule(agent=AGENT)
    def hold(self, agent: Identity) -> None:
        before = len(self.of(agent))
        ticket = self.holders.hold(agent, "stream", self.used + 1, self.now)
        assert ticket > self.used
        self.used = ticket
        self.held.append((ticket, agent))
        if not before:
            self.heard[agent] = self.now

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.held))
        self.held.remove(entry)
        assert self.holders.drop(entry[0])
        assert not self.holders.drop(entry[0])

    @rule(agent=AGENT)
    def die(self, agent: Identity) -> None:
        tickets = self.of(agent)
        assert self.holders.gone(agent) == [Held(ticket, "stream", ticket) for ticket in tickets]
        self.held = [(ticket, other) for ticket, other in self.held if other != agent]
        assert not [ticket for ticket in tickets if self.holders.drop(ticket)]

    @rule()
    def the_silent_ones_are_given_up(self) -> None:
        for agent in self.holders.silent(self.now, LIMIT):
            self.die(agent)
        due = self.holders.next_due(LIMIT)
        assert due is None or due > self.now

    @invariant()
    def the_silent_ones_are_those_that_hold_something_and_were_not_heard(self) -> None:
        holding = {agent for _, agent in self.held}
        silent = self.holders.silent(self.now, LIMIT)
        assert set(silent) == {agent for agent in holding if self.heard[agent] + LIMIT <= self.now}
        assert len(silent) == len(set(silent))
        assert [self.heard[agent] for agent in silent] == sorted(self.heard[agent] for agent in silent)
        assert self.holders.next_due(LIMIT) == min(
            (self.heard[agent] + LIMIT for agent in holding), default=None
        )

    @invariant()
    def what_is_held_is_what_was_taken_and_not_given_back(self) -> None:
        assert len(self.holders) == len(self.held)
        assert {agent for agent in AGENTS if self.holders.holding(agent)} == {agent for _, agent in self.held}


TestServer = Server.TestCase
TestServer.settings = settings(max_examples=many(150), stateful_step_count=40)
