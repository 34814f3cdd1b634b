from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery import locks
from pzc.delivery.locks import Changed, Event, Granted, Lock, Owner, Refusal, Removed, Waiting
from pzc.protocol.errors import LockedBy, LockLost, Refused
from pzc.protocol.message import Identity

from tests.effort import many

AGENTS = [Identity("1", "a"), Identity("2", "a"), Identity("", "b")]
OWNERS = [
    Owner(f"key {key_id}", agent, f"{key_id} {agent} {n}", key_id) for key_id, agent in AGENTS for n in (1, 2)
]
SECONDS = st.integers(0, 48).map(lambda n: n / 4)
SOME_OWNER = st.sampled_from(OWNERS)


def taken_by(owner: Owner) -> Changed:
    return Changed("taken", owner, owner)


class Clients(RuleBasedStateMachine):
    """Three agents with two proxies each; a naive model says what must happen, a log what did."""

    @initialize(of_key=st.integers(1, 4))
    def start(self, of_key: int) -> None:
        self.before, locks._WAITING = locks._WAITING, of_key
        self.lock: Lock[int] = Lock()
        self.room_of_key = of_key
        self.now: float = 0.0
        self.tickets = 0
        self.holder: Owner | None = None
        self.out_at = self.ttl = 0.0
        self.queue: list[tuple[int, Owner, float, float]] = []  # ticket, owner, ttl, until
        self.given_up: dict[Owner, float] = {}
        self.logged_holder: Owner | None = None
        self.logged_waiting: dict[int, Owner] = {}

    # The log: what whoever sends the answers sees, without any knowledge of the rules.

    def follow(self, events: list[Event[int]]) -> None:
        for event in events:
            if isinstance(event, Changed):
                self.follow_change(event)
            else:
                owner = self.logged_waiting.pop(event.ticket)  # fails for one that had ended before
                assert not isinstance(event, Granted) or owner == event.owner == self.logged_holder

    def follow_change(self, event: Changed) -> None:
        if event.kind == "taken":
            assert self.logged_holder is None
            assert event.owner == next(iter(self.logged_waiting.values()), event.owner)
            self.logged_holder = event.owner
        else:
            assert self.logged_holder == event.owner
            self.logged_holder = event.by if event.kind == "taken over" else None

    # The model

    def hand_to(self, owner: Owner, ttl: float) -> list[object]:
        mine = [waiter for waiter in self.queue if waiter[1] == owner]
        self.queue = [waiter for waiter in self.queue if waiter[1] != owner]
        kept = self.ttl if self.holder == owner else 0.0
        self.holder, self.ttl = owner, max([kept, ttl, *(waiter[2] for waiter in mine)])
        self.out_at = self.now + self.ttl
        return [Granted(waiter[0], owner) for waiter in mine]

    def free(self, change: Changed) -> list[object]:
        self.holder = None
        if not self.queue:
            return [change]
        _, owner, ttl, _ = self.queue[0]
        return [change, taken_by(owner), *self.hand_to(owner, ttl)]

    def pass_time(self) -> list[object]:
        late = [waiter[0] for waiter in self.queue if waiter[3] <= self.now]
        self.queue = [waiter for waiter in self.queue if waiter[0] not in late]
        told: list[object] = [("refused", ticket) for ticket in late]
        if self.holder is not None and self.out_at <= self.now:
            told += self.free(Changed("expired", self.holder, None))
        return told

    def compare(self, events: list[Event[int]], expected: list[object]) -> None:
        seen = [("refused", event.ticket) if isinstance(event, Refusal) else event for event in events]
        assert seen == expected
        self.follow(events)

    def queued_with(self, key_id: str) -> int:
        return sum(waiter[1].key_id == key_id for waiter in self.queue)

    def is_late(self, owner: Owner) -> bool:
        return self.given_up.get(owner, self.now) > self.now

    # The events

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(days=st.integers(1, 3))
    def the_machine_sleeps(self, days: int) -> None:
        self.now += days * 86_400

    @rule()
    def the_loop_wakes(self) -> None:
        self.compare(self.lock.expire(self.now), self.pass_time())

    @precondition(lambda self: self.lock.owner is not None)
    @rule()
    def the_loop_wakes_on_time(self) -> None:
        due = self.lock.next_due()
        assert due is not None
        assert due == min([self.out_at, *(waiter[3] for waiter in self.queue)])
        if due > self.now:
            self.compare(self.lock.expire((self.now + due) / 2), [])
            self.now = due
        expected = self.pass_time()
        assert expected
        self.compare(self.lock.expire(self.now), expected)

    @rule(owner=SOME_OWNER, ttl=SECONDS, wait=SECONDS)
    def acquire(self, owner: Owner, ttl: float, wait: float) -> None:
        self.tickets += 1
        if self.is_late(owner):
            with pytest.raises(LockLost):
                self.lock.acquire(owner, ttl, "", self.now + wait, self.tickets, self.now, self.now)
            return
        outcome, events = self.lock.acquire(owner, ttl, "", self.now + wait, self.tickets, self.now, self.now)
        expected, ttl = self.pass_time(), max(ttl, 0.1)
        if self.holder in (None, owner):
            expected += [] if self.holder else [taken_by(owner)]
            expected += self.hand_to(owner, ttl)
            assert outcome == Granted(self.tickets, owner)
        elif wait == 0:
            assert isinstance(outcome, LockedBy)
        elif self.queued_with(owner.key_id) == self.room_of_key:
            assert isinstance(outcome, Refused)
        else:
            self.queue.append((self.tickets, owner, ttl, self.now + wait))
            assert outcome == Waiting(self.tickets)
        self.compare(events, expected)
        if isinstance(outcome, Waiting):
            self.logged_waiting[self.tickets] = owner

    @rule(owner=SOME_OWNER, ttl=SECONDS)
    def take_over(self, owner: Owner, ttl: float) -> None:
        self.tickets += 1
        if self.is_late(owner):
            with pytest.raises(LockLost):
                self.lock.takeover(owner, ttl, "", self.tickets, self.now, self.now)
            return
        outcome, events = self.lock.takeover(owner, ttl, "", self.tickets, self.now, self.now)
        expected = self.pass_time()
        if self.holder is None:
            expected.append(taken_by(owner))
        elif self.holder != owner:
            expected.append(Changed("taken over", self.holder, owner))
        assert outcome == Granted(self.tickets, owner)
        self.compare(events, expected + self.hand_to(owner, max(ttl, 0.1)))

    @rule(owner=SOME_OWNER)
    def release(self, owner: Owner) -> None:
        done, events = self.lock.release(owner, self.now)
        expected = self.pass_time()
        assert done == (self.holder == owner)
        self.compare(events, expected + (self.free(Changed("released", owner, owner)) if done else []))

    @rule(owner=SOME_OWNER)
    def give_up(self, owner: Owner) -> None:
        done, events = self.lock.give_up(owner, self.now)
        expected = self.pass_time()
        assert done == (self.holder == owner)
        if done:
            expected += self.free(Changed("released", owner, owner))
        else:
            self.given_up[owner] = self.now + 60
            expected += [("refused", waiter[0]) for waiter in self.queue if waiter[1] == owner]
            self.queue = [waiter for waiter in self.queue if waiter[1] != owner]
        self.compare(events, expected)

    @precondition(lambda self: self.lock.owner is not None)
    @rule()
    def the_owner_releases(self) -> None:
        assert self.holder is not None
        self.release(self.holder)

    @rule(agent=st.sampled_from(AGENTS))
    def sign_of_life(self, agent: Identity) -> None:
        events = self.lock.renew(agent, self.now)
        if self.holder is None or self.holder.identity != agent:
            self.compare(events, [])
        elif self.out_at <= self.now:
            self.compare(events, self.pass_time())
        else:
            self.out_at = max(self.out_at, self.now + self.ttl)
            self.compare(events, [])

    @rule(agent=st.sampled_from(AGENTS))
    def die(self, agent: Identity) -> None:
        removed = [waiter[0] for waiter in self.queue if waiter[1].identity == agent]
        self.queue = [waiter for waiter in self.queue if waiter[1].identity != agent]
        events = self.lock.gone(agent, self.now)
        expected: list[object] = [Removed(ticket) for ticket in removed]
        expected += self.pass_time()
        if self.holder is not None and self.holder.identity == agent:
            expected += self.free(Changed("lost", self.holder, None))
        self.compare(events, expected)
        left = [*self.logged_waiting.values(), *([self.lock.owner] if self.lock.owner else [])]
        assert agent not in [owner.identity for owner in left]

    @precondition(lambda self: self.queue)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        waiter = data.draw(st.sampled_from(self.queue))
        self.queue.remove(waiter)
        del self.logged_waiting[waiter[0]]
        assert self.lock.withdraw(waiter[0])

    @invariant()
    def the_lock_is_where_the_model_has_it(self) -> None:
        assert self.lock.owner == self.holder == self.logged_holder
        assert list(self.logged_waiting) == [waiter[0] for waiter in self.queue]
        description = self.lock.describe()
        assert (description is None) == (self.holder is None)
        if description is not None:
            assert (description["waiting"], description["ttl"]) == (len(self.queue), self.ttl)

    @invariant()
    def exactly_one_token_passes_while_the_lock_is_held(self) -> None:
        passing: list[Owner] = []
        for owner in OWNERS:
            try:
                self.lock.check(owner.key, owner.agent, owner.token, reads=False)
            except LockLost:
                continue
            passing.append(owner)
        assert passing == ([] if self.holder is None else [self.holder])

    @invariant()
    def nobody_waits_for_a_free_lock_or_for_itself(self) -> None:
        assert self.holder is not None or not self.queue
        assert self.holder not in [waiter[1] for waiter in self.queue]

    @invariant()
    def nobody_who_has_given_up_waits(self) -> None:
        assert not [waiter for waiter in self.queue if self.is_late(waiter[1])]

    def teardown(self) -> None:
        locks._WAITING = self.before
        for _ in range(20):
            if (due := self.lock.next_due()) is not None:
                self.follow(self.lock.expire(max(self.now, due)))
        assert self.lock.owner is None
        assert not self.logged_waiting


TestClients = Clients.TestCase
TestClients.settings = settings(max_examples=many(200), stateful_step_count=50)
