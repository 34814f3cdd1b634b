"""KeepQueue: what the processes of a mailbox get and are told of, beside plain lists of what was published."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.claim_queue import OVERHEAD
from pzc.delivery.claims import Loss
from pzc.delivery.interests import thin
from pzc.delivery.keep_queue import KeepQueue
from pzc.delivery.letters import Kept, Letter
from pzc.delivery.policies import mailbox

from tests.effort import many

BOUNDS = st.integers(1, 4)
BYTES = st.sampled_from([20, 40, 1000])
TOPICS = st.sampled_from(["a", "b"])
WANTS = st.sampled_from([
    ("a", None), ("b", None), ("*", None), ("a", frozenset("x")), ("a", frozenset("xy")),
])  # fmt: skip

Number = tuple[str, int]


@dataclass
class Model:
    """What was put for one interest, and what its processes know.

    Attributes:
        got: by the process of now.
        done: by any process.
        told: to the process of now.
        settled: losses that processes before were told, and acknowledged.
    """

    put: list[Number] = field(default_factory=list[Number])
    got: list[Number] = field(default_factory=list[Number])
    done: list[Number] = field(default_factory=list[Number])
    told: dict[str, int] = field(default_factory=dict[str, int])
    settled: int = 0

    def take(self, number: Number) -> None:
        """It was published for this, comes once, and in order."""
        assert number not in self.got
        assert number not in self.done
        self.got.append(number)
        places = [self.put.index(each) for each in self.got]
        assert places == sorted(places)


def keys_of(interest: Kept) -> frozenset[str] | None:
    return None if interest.keys is None else frozenset(interest.keys)


class Processes(RuleBasedStateMachine):
    """A publisher, a carrier that breaks at any moment, and processes that read one after the other."""

    @initialize()
    def start(self) -> None:
        self.queue: KeepQueue[Number] = KeepQueue()
        self.models: dict[Kept, Model] = {}
        self.numbers = {"a": 0, "b": 0}
        self.clock = 0
        self.begin()

    def begin(self) -> None:
        self.wire: list[tuple[list[Letter[Number]], list[Loss]]] = []
        self.received, self.queue.room = 0, 6
        self.undone: dict[int, Letter[Number]] = {}

    # --- the reader's wishes

    @rule(wanted=WANTS, bound=BOUNDS, size=BYTES, full=st.booleans())
    def want(self, wanted: tuple[str, frozenset[str] | None], bound: int, size: int, full: bool) -> None:
        topic, keys = wanted
        policy = mailbox(bound, size, "block" if full else "drop_oldest", name="n")
        same = [each for each in self.models if (each.topic, each.keys) == (topic, thin(keys))]
        if same and same[0].has_reader:
            return
        interest = self.queue.want(len(self.models) + 1, topic, policy, keys)
        assert interest.has_reader
        if same:
            assert interest is same[0]
        else:
            self.models[interest] = Model([each.message for each in self.queue.letters(interest)])
            assert all(interest.wants(each) for each in self.queue.letters(interest))

    @precondition(lambda self: self.queue.interests)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        interest = data.draw(st.sampled_from(list(self.queue.interests)))
        self.queue.forget(interest)
        del self.models[interest]

    @rule()
    def forget_others(self) -> None:
        self.queue.forget_others()
        self.models = {each: model for each, model in self.models.items() if each.has_reader}

    # --- the publisher

    @rule(topic=TOPICS, key=st.sampled_from("xyz"), size=st.integers(1, 30), burst=st.integers(1, 7))
    def publish(self, topic: str, key: str, size: int, burst: int) -> None:
        for _ in range(burst):
            self.publish_one(topic, key, size)

    def publish_one(self, topic: str, key: str, size: int) -> None:
        claims = self.queue.matching(topic, key)
        fits = [each for each in self.models if each.topic in (topic, "*") and key in (each.keys or key)]
        assert set(claims) == set(fits)
        if self.queue.full(claims, key, size):
            return
        number = self.numbers[topic] = self.numbers[topic] + 1
        self.clock += 1
        self.queue.put((topic, number), topic, key, number, size, claims, self.clock)
        for each in claims:
            self.models[each].put.append((topic, number))
            assert self.queue.letters(each)[-1].number == number
            part = each.part(key)
            assert part is not None
            assert len(part.waiting) <= max(1, each.bound - part.held)

    @rule()
    def abandon(self) -> None:
        on_their_way, claims = self.queue.unacknowledged, sum(map(len, map(self.queue.letters, self.models)))
        missed = sum(each.missed for each in self.models)
        self.queue.abandon()
        assert sum(each.missed for each in self.models) == missed + claims
        assert (self.queue.waiting, self.queue.unacknowledged) == (0, on_their_way)

    # --- the carrier

    @rule(room=st.integers(0, 6))
    def report(self, room: int) -> None:
        self.queue.room = self.received + room

    @rule(messages=st.integers(1, 5), size=st.integers(1, 400), most=st.integers(0, 3))
    def take(self, messages: int, size: int, most: int) -> None:
        ready, before = len(self.queue), self.bytes_under_way()
        taken = self.queue.take(messages, size)
        assert bool(taken) == bool(ready)
        assert len(taken) <= messages
        assert len(taken) < 2 or sum(OVERHEAD + each.size for each in taken) <= size
        assert len(self.queue) <= ready - len(taken)
        bound = min(self.queue.share, max((each.max_bytes for each in self.queue.interests), default=0))
        assert self.queue.unacknowledged < 2 or self.bytes_under_way() <= max(bound, before)
        shown = taken[-1].position if taken else self.queue.sent + 1
        self.wire.append((taken, self.queue.losses(most, shown)))

    def bytes_under_way(self) -> int:
        letters = {each.message: each for one in self.models for each in self.queue.letters(one)}.values()
        return self.queue.bytes - sum(each.size for each in letters)

    @rule(share=st.sampled_from([30, 1 << 62]))
    def have_a_share(self, share: int) -> None:
        self.queue.share = share

    @rule()
    def all_goes(self) -> None:
        self.take(10, 1 << 30, 10)
        while self.wire:
            self.deliver()
        self.finish(self.received, [])

    @precondition(lambda self: self.wire)
    @rule()
    def deliver(self) -> None:
        letters, losses = self.wire.pop(0)
        for letter in letters:
            if letter.position <= self.received:
                continue
            assert letter.position == self.received + 1
            self.received = letter.position
            self.undone[letter.position] = letter
            for interest in letter.claims:
                if interest in self.models:
                    self.models[interest].take(letter.message)
        for interest, topic, at, total in losses:
            if isinstance(interest, Kept) and interest in self.models:
                model = self.models[interest]
                assert (topic, at) in model.put
                assert (topic, at) not in model.got
                model.told[topic] = max(model.told.get(topic, 0), total)

    @rule()
    def break_and_resume(self) -> None:
        self.wire.clear()
        self.queue.resume(self.received)

    @precondition(lambda self: self.undone)
    @rule(data=st.data(), alone=st.booleans())
    def done(self, data: st.DataObject, alone: bool) -> None:
        position = data.draw(st.sampled_from(list(self.undone)))
        self.finish(*(0, [position]) if alone else (position, []))

    def finish(self, upto: int, others: list[int]) -> None:
        for letter in self.queue.done(self.received, upto, others):
            assert letter is self.undone.pop(letter.position)
            for interest in letter.claims:
                if interest in self.models:
                    self.models[interest].done.append(letter.message)

    @rule(again=st.lists(st.booleans(), min_size=5, max_size=5))
    def another_process(self, again: list[bool]) -> None:
        for interest, model in self.models.items():
            for topic, told in interest.sums.items():
                assert told.settled <= model.told.get(topic, 0)
                model.settled += told.settled
            model.told.clear()
            model.got.clear()
        self.queue.hand_over()
        assert (len(self.queue), self.queue.unacknowledged, self.queue.behind) == (0, 0, False)
        self.begin()
        for interest, wanted in zip(list(self.models), again, strict=False):
            if wanted:
                self.want((interest.topic, keys_of(interest)), 3, 1000, False)

    # --- always

    @invariant()
    def all_is_accounted_for(self) -> None:
        for interest, model in self.models.items():
            parts = interest.parts.values()
            held = sum(part.held + len(part.waiting) for part in parts)
            assert all(part.held or part.waiting for part in parts)
            assert interest.delivered + held + interest.missed == len(model.put)
            assert interest.delivered == len(model.done)
            assert sum(each.total for each in interest.sums.values()) + model.settled == interest.missed

    @invariant()
    def sizes_are_right(self) -> None:
        if hasattr(self, "queue"):
            letters = {id(each): each for one in self.models for each in self.queue.letters(one)}.values()
            assert len(letters) == self.queue.waiting
            sizes = {each.message: each.size for each in letters}
            assert self.queue.unacknowledged or sum(sizes.values()) == self.queue.bytes

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        for interest in list(self.models):
            if not interest.has_reader:
                self.want((interest.topic, keys_of(interest)), 4, 1000, False)
        self.break_and_resume()
        while self.queue.waiting or self.queue.unacknowledged or self.queue.behind:
            self.report(10)
            self.all_goes()
        for model in self.models.values():
            lost = sum(model.told.values()) + model.settled
            assert len(set(model.done)) + lost == len(model.put)
        assert (self.queue.bytes, self.queue.waiting, len(self.queue)) == (0, 0, 0)


TestProcesses = Processes.TestCase
TestProcesses.settings = settings(max_examples=many(200), stateful_step_count=50)
