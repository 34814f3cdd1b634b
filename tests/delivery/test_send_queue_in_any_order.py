"""SendQueue: what a reader gets and is told of, beside plain lists of what was published for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.claim_queue import OVERHEAD
from pzc.delivery.claims import Entry, Interest
from pzc.delivery.policies import Policy, block, drop, latest
from pzc.delivery.send_queue import Most, SendQueue

from tests.effort import many

BOUNDS = st.integers(1, 3)
POLICIES = st.builds(drop, BOUNDS) | st.builds(latest, BOUNDS) | BOUNDS.map(lambda slots: block(slots=slots))
KEYS = st.none() | st.frozensets(st.sampled_from("xyz"), min_size=1)
TOPICS = st.sampled_from(["a", "b"])
MOST = Most(messages=5, bytes=30, leased=2, waiting=40)


@dataclass(eq=False)
class Message:
    """Told from others by identity."""

    topic: str
    number: int


@dataclass
class Model:
    """What was put for one interest, and what its reader knows."""

    put: list[int] = field(default_factory=list[int])
    got: list[int] = field(default_factory=list[int])
    told: int = 0

    def hear(self, at: int, total: int) -> None:
        """A sum, which may come again; what it counts was published and never comes."""
        assert at in self.put
        assert at not in self.got
        self.told = max(self.told, total)

    def take(self, number: int) -> None:
        """It was published for this, behind everything that came before."""
        assert number in self.put
        assert not self.got or self.got[-1] < number
        self.got.append(number)


class Reader(RuleBasedStateMachine):
    """A publisher, a carrier that breaks at any moment, and a reader."""

    @initialize()
    def start(self) -> None:
        self.flows = True
        self.queue: SendQueue[Message] = SendQueue(lambda: self.flows, MOST)
        self.models: dict[Interest, Model] = {}
        self.numbers = {"a": 0, "b": 0}
        self.alive: set[Message] = set()
        self.on_the_way: list[Entry[Message]] = []
        self.received = 0
        self.undone: list[int] = []

    # --- the reader's wishes

    @rule(topic=TOPICS, policy=POLICIES, keys=KEYS)
    def want(self, topic: str, policy: Policy, keys: frozenset[str] | None) -> None:
        if len(self.queue.interests) < 4:
            self.models[self.queue.want(len(self.models), topic, policy, None, keys)] = Model()

    @precondition(lambda self: self.queue.interests)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        interest = data.draw(st.sampled_from(list(self.queue.interests)))
        self.queue.forget(interest)
        assert not interest.is_full
        del self.models[interest]
        self.free(self.queue.gone)

    # --- the publisher

    @rule(topic=TOPICS, key=st.sampled_from("xyz"), size=st.integers(1, 15), leased=st.booleans())
    def publish(self, topic: str, key: str, size: int, leased: bool) -> None:
        number = self.numbers[topic] = self.numbers[topic] + 1
        wanting = self.queue.matching(topic, key)
        expected = [each for each in self.models if each.topic == topic and each.keys in (None, each.keys)]
        assert set(wanting) == {each for each in expected if each.keys is None or key in each.keys}
        for interest in wanting:
            self.models[interest].put.append(number)
            if interest.is_full:
                self.queue.lose(interest, number)
        claims = tuple(each for each in wanting if not each.is_full)
        message = Message(topic, number)
        if claims and self.queue.put(message, number, size, leased, claims):
            self.alive.add(message)
        self.free(self.queue.gone)

    @rule()
    def give_block(self) -> None:
        waits = any(entry.leased for each in self.queue.interests for entry in each.waiting)
        assert self.queue.give_block() == waits
        self.free(self.queue.gone)

    def free(self, entries: list[Entry[Message]]) -> None:
        for entry in entries:
            self.alive.remove(entry.message)  # once
        entries.clear()

    # --- the carrier

    @rule(flows=st.booleans(), runs_ahead=st.booleans())
    def turn(self, flows: bool, runs_ahead: bool) -> None:
        self.flows, self.queue.runs_ahead = flows, runs_ahead

    @rule()
    def refill(self) -> None:
        self.queue.refill()

    @rule(messages=st.integers(1, 5), size=st.integers(1, 400), blocks=st.booleans(), back=st.integers(0, 2))
    def take(self, messages: int, size: int, blocks: bool, back: int) -> None:
        ready = len(self.queue)
        taken = self.queue.take(messages, size, blocks)
        assert bool(taken) == bool(ready)
        assert len(taken) <= messages
        costs = {each.message: OVERHEAD + (0 if each.leased and blocks else each.size) for each in taken}
        assert len(costs) <= 1 or sum(costs.values()) <= size  # what has two positions goes once
        if 0 < back < len(taken):
            self.queue.later(taken[-back:])
            del taken[-back:]
        assert len(self.queue) == ready - len(taken)
        self.on_the_way += taken

    @precondition(lambda self: self.on_the_way)
    @rule()
    def deliver(self) -> None:
        entry = self.on_the_way.pop(0)
        if entry.position <= self.received:
            return
        assert entry.position == self.received + 1
        self.received = entry.position
        self.undone.append(entry.position)
        assert len({interest.lossy for interest in entry.claims}) == 1
        for interest in entry.claims:
            if interest in self.models:
                self.models[interest].take(entry.number)

    def hear(self, losses: Any) -> None:
        for loss in losses:
            if loss.interest in self.models:
                self.models[loss.interest].hear(loss.at, loss.total)

    @rule(at_once=st.integers(0, 3))
    def break_and_resume(self, at_once: int) -> None:
        self.on_the_way.clear()
        self.queue.resume(self.received)
        self.on_the_way += self.queue.take(at_once, 1 << 30, True)
        assert not self.on_the_way or self.on_the_way[0].position == self.received + 1
        for model in self.models.values():  # what was told may not have come
            model.told = 0

    @precondition(lambda self: not self.queue.suspended)
    @rule()
    def suspend(self) -> None:
        """What is on its way may still come before the reader is back."""
        for entry in self.queue.suspend():
            self.alive.discard(entry.message)  # several entries may be of one
        self.free(self.queue.gone)
        assert not self.alive
        assert (self.queue.unacknowledged, len(self.queue)) == (0, 0)
        assert not any(each.is_full for each in self.models)

    @precondition(lambda self: self.undone)
    @rule(data=st.data(), others=st.booleans())
    def done(self, data: st.DataObject, others: bool) -> None:
        position = data.draw(st.sampled_from(self.undone))
        finished = [position] if others else [each for each in self.undone if each <= position]
        self.undone = [each for each in self.undone if each not in finished]
        upto = 0 if others else position
        self.free(self.queue.done(self.received, upto, [position] if others else []))

    @rule(most=st.integers(1, 3))
    def losses(self, most: int) -> None:
        self.hear(self.queue.losses(most))

    # --- always

    @invariant()
    def all_is_accounted_for(self) -> None:
        for interest, model in self.models.items():
            held = interest.held + len(interest.waiting)
            if not self.queue.suspended:
                assert interest.delivered + held + interest.missed == len(model.put)
            assert model.told <= interest.missed
            assert len(interest.waiting) <= interest.bound
            if not interest.lossy:
                assert not interest.waiting

    @invariant()
    def bounds_hold(self) -> None:
        if hasattr(self, "queue"):
            waiting = {id(each): each for one in self.models for each in one.waiting}.values()
            assert len(waiting) <= 1 or sum(each.size for each in waiting) <= MOST.waiting

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.flows = True
        self.break_and_resume(0)
        while len(self.queue) or self.on_the_way or self.undone or any(i.waiting for i in self.models):
            self.queue.refill()
            self.on_the_way += self.queue.take(100, 1 << 30, True)
            while self.on_the_way:
                self.deliver()
            self.free(self.queue.done(self.received, self.received, []))
            self.undone.clear()
        self.hear(self.queue.losses(100))
        assert not self.queue.behind
        for model in self.models.values():
            assert len(model.got) + model.told == len(model.put)
        assert not self.alive
        assert self.queue.unacknowledged == 0


TestReader = Reader.TestCase
TestReader.settings = settings(max_examples=many(200), stateful_step_count=50)
