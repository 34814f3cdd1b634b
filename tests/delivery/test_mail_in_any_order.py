"""A publisher and its readers over wires that lose, repeat and reorder; either side may be killed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.collector import Arrived, Collector, Ended, Forgotten, Missed, Restarted
from pzc.delivery.mail import (
    Answered,
    Applied,
    Caller,
    CommandRequest,
    Gone,
    Message,
    Refusal,
    Room,
)
from pzc.delivery.mailboxes import Mailboxes
from pzc.delivery.policies import Policy, mailbox

from tests.effort import many

POLICIES = {
    "live": mailbox(4, 8),
    "archive": mailbox(4, 8, name="archive", keep=100.0),
    "patient": mailbox(3, 8, "block"),
}
WANTED = {"live": [("a", None), ("b", "x")], "archive": [("b", "x"), ("a", None)], "patient": [("c", None)]}
READERS = st.sampled_from(sorted(POLICIES))
ANY = st.integers(0, 1_000)
FAR = 1_000.0


class Process:
    """One life of a reader. It knows what came, and compares it with what the publisher put in."""

    def __init__(self, reader: str, number: int, now: float) -> None:
        self.policy: Policy = POLICIES[reader]
        self.reader = reader
        self.caller = Caller(f"{reader}{number}", self.policy.durable)
        self.collector: Collector[int] = Collector(self.policy, now, window=6)
        for topic, key in WANTED[reader]:
            self.collector.subscribe(topic, key)
        self.cursor: dict[Any, int] = {}
        self.undone: list[tuple[Any, int]] = []
        self.missed: list[Missed] = []
        self.told: dict[
            Any, Counter[str]
        ] = {}  # losses of each position, which are told as soon as one is met
        self.skipped: dict[Any, Counter[str]] = {}
        self.restarts: list[int] = []
        self.forgotten = 0
        self.ended = 0


class Lab(RuleBasedStateMachine):
    """Everything that is put into a mailbox is counted here, message by message, from outside."""

    @initialize(rounds=st.sampled_from([3, 3, 3, 0]))
    def start(self, rounds: int) -> None:
        self.now = 0.0
        self.epoch = 0
        self.lives = self.trouble = 0
        self.sequences: Counter[str] = Counter()
        self.processes: dict[str, Process] = {}
        self.dead: list[Process] = []
        self.rivals: list[Process] = []  # alive, but somebody else has opened their mailbox
        self.owner: Process | None = None  # of the archive: whose opening was served last, dead or alive
        self.requests: list[tuple[Process, Any]] = []
        self.answers: list[tuple[Process, Any, Any]] = []
        self.settled: dict[int, set[int]] = {}  # numbers of a content that a process was done with, or missed
        self.by_position: dict[Any, list[Message[int]]] = {}
        self.gone: list[Gone] = []
        self.restart_publisher()
        for reader in POLICIES:
            self.bear(reader)
        self.run(rounds)

    def bear(self, reader: str) -> None:
        self.lives += 1
        self.processes[reader] = Process(reader, self.lives, self.now)

    # The publisher

    def restart_publisher(self) -> None:
        self.epoch += 1
        self.book: Mailboxes[int, tuple[Process, Any]] = Mailboxes(self.epoch)
        self.sequences.clear()
        self.contents: dict[str, list[Message[int]]] = {}
        self.subscribed: set[str] = set()
        self.blocked: set[str] = set()

    def key(self, process: Process) -> str:
        return process.caller.name or process.caller.process

    @rule(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8), which=ANY)
    def publish_some(self, sizes: list[int], which: int) -> None:
        for size in sizes:
            which = (which * 31 + 7) % 1009
            self.publish("aabbc"[which % 5], ("x", "y", None)[which % 3], size)

    def publish(self, topic: str, key: str | None, size: int) -> None:
        number = self.sequences[topic] + 1
        blocked = self.book.would_block(topic, key, size)
        assert self.book.publish(topic, key, number, size, number, self.now) == blocked
        if blocked:
            assert set(blocked) <= {reader for reader in self.subscribed if reader.startswith("patient")}
            self.blocked |= set(blocked)
            return
        self.sequences[topic] = number
        for reader in self.subscribed:
            wanted = WANTED[reader.rstrip("0123456789")]
            if (topic, None) in wanted or (topic, key) in wanted:
                self.contents[reader].append(Message(topic, key, number, size, number, self.now))

    def serve(self, process: Process, request: Any) -> None:
        if isinstance(request, CommandRequest):
            answer: Any = self.book.command(process.caller, request, self.now)
        else:
            answer = self.book.poll(process.caller, request, (process, request), self.now)
        reader = self.key(process)
        if not isinstance(answer, Refusal):
            self.contents.setdefault(reader, [])
            if reader == "archive":
                self.owner = process
        if isinstance(answer, Applied):
            self.subscribed.add(reader)
        if answer is not None:
            self.send_answer(process, request, answer)
        self.follow()

    def send_answer(self, process: Process, request: Any, answer: Any) -> None:
        if not isinstance(answer, Refusal):
            self.by_position.setdefault(answer.position, self.contents[self.key(process)])
        self.answers.append((process, request, answer))

    def follow(self) -> None:
        for event in self.book.events():
            if isinstance(event, Answered):
                self.send_answer(*event.ticket, event.answer)
            elif isinstance(event, Room):
                self.blocked.discard(event.reader)  # told once or more: whoever waits asks again
            else:
                self.gone.append(event)
                del self.contents[event.reader]
                self.subscribed.discard(event.reader)

    # The readers

    def act(self, process: Process) -> None:
        self.requests += [(process, request) for request in process.collector.requests(self.now)]

    def take(self, process: Process, request: Any, answer: Any) -> None:
        for event in process.collector.answered(request, answer, self.now):
            if isinstance(event, Missed):
                process.missed.append(event)
            elif isinstance(event, Arrived):
                self.arrived(process, event)
            elif isinstance(event, Restarted):
                assert event.epoch not in process.restarts
                process.restarts.append(event.epoch)
                process.undone.clear()
            elif isinstance(event, Forgotten):
                process.forgotten += 1
                process.undone.clear()
            elif isinstance(event, Ended):
                assert event.reason == "taken over"
                process.ended += 1
                assert process.ended == 1

    def arrived(self, process: Process, event: Arrived[int]) -> None:
        content = self.by_position[event.position]
        settled = self.settled.setdefault(id(content), set())
        told, process.missed = process.missed, []
        begin = told[0].lost.first_number if told else event.first
        cursor = process.cursor.get(event.position)
        if cursor is None:  # nothing that no process was done with may be skipped
            assert settled.issuperset(range(1, begin))
            cursor = begin - 1
        skipped = content[cursor : event.first - 1]
        assert [(each.lost.topic, each.lost.evicted) for each in told if each.lost.evicted < 1] == []
        assert {(e.lost.topic, e.lost.key) for e in told} <= {("a", ""), ("b", "x"), ("c", "")}
        for e in told:
            process.told.setdefault(event.position, Counter())[e.lost.topic] += e.lost.evicted
        process.skipped.setdefault(event.position, Counter()).update(each.topic for each in skipped)
        assert process.told.get(event.position, Counter()) >= process.skipped[event.position]
        for topic in {each.lost.topic for each in told}:
            ranges = [(each.lost.first, each.lost.last) for each in told if each.lost.topic == topic]
            assert ranges == sorted(ranges)
        last = event.first + len(event.messages) - 1
        assert event.messages == content[event.first - 1 : last]
        settled.update(range(cursor + 1, event.first))
        process.cursor[event.position] = last
        process.undone += [(event.position, number) for number in range(event.first, last + 1)]
        assert len(process.undone) <= 6

    @rule(reader=READERS)
    def send(self, reader: str) -> None:
        self.act(self.processes[reader])

    @rule(reader=READERS, which=ANY)
    def done(self, reader: str, which: int) -> None:
        process = self.processes[reader]
        if process.undone:
            self.finish(process, *process.undone.pop(which % len(process.undone)))

    def finish(self, process: Process, position: Any, number: int) -> None:
        self.settled.setdefault(id(self.by_position[position]), set()).add(number)
        process.collector.done(position, [number], self.now)

    @rule(reader=READERS)
    def done_with_all(self, reader: str) -> None:
        self.finish_all(self.processes[reader])

    def finish_all(self, process: Process) -> None:
        if process.undone:
            position, last = process.undone[-1]
            self.settled.setdefault(id(self.by_position[position]), set()).update(
                number for _, number in process.undone
            )
            process.collector.done(position, range(1, last + 1), self.now)
            process.undone.clear()

    @rule(reader=READERS, times=st.integers(1, 3))
    def fetch(self, reader: str, times: int) -> None:
        """What happens on a good day."""
        for _ in range(times):
            self.send(reader)
            requests = [each for each in self.requests if each[0] is self.processes[reader]]
            self.requests = [each for each in self.requests if each not in requests]
            for request in requests:
                self.serve(*request)
            answers = [each for each in self.answers if each[0] is self.processes[reader]]
            self.answers = [each for each in self.answers if each not in answers]
            for answer in answers:
                self.take(*answer)

    @precondition(lambda self: self.trouble < 2)
    @rule(reader=READERS | st.sampled_from(["publisher", "nobody, for long"]))
    def kill(self, reader: str) -> None:
        self.trouble += 1
        if reader == "publisher":
            self.restart_publisher()
            return
        if reader not in POLICIES:
            self.wait(140.0)
            return
        self.dead.append(self.processes[reader])
        self.bear(reader)

    @precondition(lambda self: len(self.rivals) < 2)
    @rule()
    def open_a_mailbox_that_somebody_reads(self) -> None:
        self.rivals.append(self.processes["archive"])
        self.bear("archive")

    @precondition(lambda self: self.rivals)
    @rule(which=ANY)
    def send_from_a_rival(self, which: int) -> None:
        self.act(self.rivals[which % len(self.rivals)])

    # The wires

    @precondition(lambda self: self.requests)
    @rule(which=ANY, again=st.booleans())
    def deliver_request(self, which: int, again: bool) -> None:
        which %= len(self.requests)
        self.serve(*(self.requests[which] if again else self.requests.pop(which)))

    @precondition(lambda self: self.requests)
    @rule(which=ANY)
    def lose_request(self, which: int) -> None:
        self.requests.pop(which % len(self.requests))

    @precondition(lambda self: self.answers)
    @rule(which=ANY, again=st.booleans())
    def deliver_answer(self, which: int, again: bool) -> None:
        which %= len(self.answers)
        process, request, answer = self.answers[which] if again else self.answers.pop(which)
        if process not in self.dead:
            self.take(process, request, answer)

    @precondition(lambda self: self.answers)
    @rule(which=ANY)
    def lose_answer(self, which: int) -> None:
        self.answers.pop(which % len(self.answers))

    @rule(seconds=st.sampled_from([0.03, 0.5, 3.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.book.tick(self.now)
        self.follow()

    @invariant()
    def everything_is_bounded_and_counted(self) -> None:
        for each in self.book.statistics(self.now):
            put = len(self.contents[each.reader])
            assert each.delivered + each.evicted + each.waiting == put
            assert each.waiting <= 4 * len(WANTED[each.reader.rstrip("0123456789")])
            assert each.bytes <= 8 or each.waiting == 1
            assert each.unacknowledged <= each.waiting
            if each.reader in self.blocked:
                assert each.waiting

    # The end

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            for process in [*self.processes.values(), *self.rivals]:
                self.act(process)
            requests, self.requests = self.requests, []
            for request in requests:
                self.serve(*request)
            answers, self.answers = self.answers, []
            for process, request, answer in answers:
                if process not in self.dead:
                    self.take(process, request, answer)
            for process in [*self.processes.values(), *self.rivals]:
                self.finish_all(process)
            self.wait(0.5)

    def teardown(self) -> None:
        if not hasattr(self, "book"):
            return
        self.run(10)
        for number in range(20):
            self.publish("abc"[number % 3], "x", number % 4)
            self.run(number % 2)
        self.run(20)
        for process in [self.processes["archive"], *self.rivals]:
            assert process.ended == (process is not self.owner)
        reading = [process for process in [*self.processes.values(), *self.rivals] if not process.ended]
        for process in reading:
            content = self.contents[self.key(process)]
            assert process.collector.settled
            position = process.collector.position
            assert process.cursor.get(position, len(content)) == len(content)
            assert process.told.get(position, Counter()) == process.skipped.get(position, Counter())
        living = {self.key(process) for process in reading}
        assert not [each for each in self.book.statistics(self.now) if each.reader in living and each.waiting]
        assert not self.blocked & living
        before = len(self.gone)
        mailboxes = len(self.book)
        self.wait(FAR)
        self.wait(FAR)
        assert len(self.gone) - before == mailboxes
        assert (len(self.book), len(self.book.interests), self.book.next_deadline()) == (0, 0, None)


def test_an_opening_of_a_process_that_was_killed_takes_the_mailbox_when_it_comes_late() -> None:
    lab = Lab()
    lab.start(rounds=0)
    lab.send("archive")
    lab.kill("archive")
    lab.fetch("archive", times=1)
    lab.teardown()
    assert lab.owner in lab.dead
    assert lab.processes["archive"].ended == 1


TestLab = Lab.TestCase
TestLab.settings = settings(max_examples=many(120), stateful_step_count=50, deadline=None)
