from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pzc.delivery import call_table
from pzc.delivery.call_table import CallOutcome, CallSession, CallTable
from pzc.protocol.errors import Refused

from tests.effort import many

RUNS, JOINED, ANSWERED, LOST = CallOutcome
KEPT, ROOM, MOST = 5.0, 40_000, 6
LATE = call_table.SILENT  # no message arrives later


def new_table() -> CallTable[str, str]:
    return CallTable(KEPT, ROOM, MOST)


def answered(table: CallTable[str, str], session: CallSession[str, str], number: int, size: int = 1) -> None:
    assert table.admit(session, number, 0, "way") is RUNS
    table.finish(session.calls[number], f"answer {number}", size, 0.0)


@dataclass
class Client:
    """A session as its process sees it."""

    key: str
    name: str
    numbers: int = 0
    binding: int | None = None
    open: set[int] = field(default_factory=set)  # neither answered nor given up

    @property
    def floor(self) -> int:
        return min(self.open, default=self.numbers + 1)


@dataclass(frozen=True)
class Request:
    client: int
    number: int
    floor: int
    epoch: int
    binding: int
    again: bool
    at: float


class History:
    """Clients and a server whose network loses, delays, repeats and reorders what they send."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 0.0
        self.epoch = self.bindings = 0
        self.clients = [Client("k", "a"), Client("k", "b"), Client("other", "a")]
        self.wire: list[Request | tuple[int, int, int, int]] = []  # the latter cancels
        self.ran: set[tuple[int, int]] = set()
        self.seen: Counter[CallOutcome] = Counter()
        self.restart()

    def restart(self) -> None:
        self.epoch += 1
        self.table: CallTable[tuple[int, int], tuple[int, int]] = CallTable(KEPT, ROOM, MOST)
        self.sessions: dict[tuple[int, int], CallSession[tuple[int, int], tuple[int, int]]] = {}
        self.running: list[tuple[int, int]] = []
        self.cancelled: set[tuple[int, int]] = set()
        for client in self.clients:
            client.binding = None

    def connect(self) -> None:
        index = self.random.randrange(3)
        client = self.clients[index]
        if client.binding is None:
            if self.table.session(client.key, client.name) is None:
                client.open.clear()  # lost
            client.binding = self.bindings = self.bindings + 1
            self.sessions[index, self.bindings] = self.table.open(client.key, client.name, b"")

    def disconnect(self) -> None:
        index = self.random.randrange(3)
        client = self.clients[index]
        if client.binding is not None:
            self.table.close(self.sessions[index, client.binding], self.now)
            client.binding = None

    def call(self) -> None:
        index = self.random.randrange(3)
        client = self.clients[index]
        if client.binding is not None:
            client.numbers += 1
            client.open.add(client.numbers)
            self.wire += [self.request(index, client.numbers, False)] * self.random.choice([1, 1, 2])

    def send_again(self) -> None:
        index = self.random.randrange(3)
        client = self.clients[index]
        if client.binding is not None and client.open:
            number = self.random.choice(sorted(client.open))
            self.wire.append(self.request(index, number, True))

    def request(self, index: int, number: int, again: bool) -> Request:
        client = self.clients[index]
        assert client.binding is not None
        return Request(index, number, client.floor, self.epoch, client.binding, again, self.now)

    def give_up(self) -> None:
        index = self.random.randrange(3)
        client = self.clients[index]
        if client.binding is not None and client.open:
            number = self.random.choice(sorted(client.open))
            client.open.discard(number)
            self.wire.append((index, number, self.epoch, client.binding))

    def deliver(self) -> None:
        if not self.wire:
            return
        message = self.wire.pop(self.random.randrange(len(self.wire)))
        if self.random.random() < 0.15:
            return  # lost
        if isinstance(message, Request):
            if message.epoch == self.epoch and self.now - message.at < LATE:
                self.arrive(message)
        elif message[2] == self.epoch:
            self.table.cancel(self.sessions[message[0], message[3]], message[1])
            self.cancelled.add(message[:2])

    def arrive(self, request: Request) -> None:
        call = request.client, request.number
        session = self.sessions[request.client, request.binding]
        if session.connections == 0:
            return  # the server has seen the end of this connection
        try:
            outcome = self.table.admit(session, request.number, request.floor, call)
        except Refused:
            assert session.key.waiting == MOST
            return
        self.seen[outcome] += 1
        if outcome is RUNS:
            assert call not in self.ran
            assert call not in self.cancelled
            self.ran.add(call)
            self.running.append(call)
        elif outcome is JOINED:
            assert call in self.running
        elif outcome is ANSWERED:
            self.answer(call, session.calls[request.number].answer)
        elif not request.again and len(session.starts) < call_table.MAX_RANGES:
            assert call in self.ran | self.cancelled or request.number < session.floor

    def answer(self, call: tuple[int, int], answer: object) -> None:
        assert answer == call
        if self.random.random() < 0.8:
            self.clients[call[0]].open.discard(call[1])

    def finish(self) -> None:
        if self.running:
            index, number = self.running.pop(self.random.randrange(len(self.running)))
            client = self.clients[index]
            admitted = self.table.find(client.key, client.name, number)
            assert admitted is not None
            size = self.random.choice([0, 10, 5000, 15_000, 50_000])
            for way in self.table.finish(admitted, (index, number), size, self.now):
                self.answer(way, (index, number))

    def attach(self) -> None:
        asks, made = self.random.choices(self.clients, k=2)
        number = self.random.randint(0, made.numbers)
        found = self.table.find(asks.key, made.name, number)
        if found is not None and found.answer is not None:
            assert self.clients[found.answer[0]].key == asks.key
            assert found.answer[1] == number

    def wait(self) -> None:
        self.now += self.random.choice([0.1, 1.0, 1.0, 3.0, KEPT, 700.0])
        self.table.expire(self.now)

    def check(self) -> None:
        for key in self.table._keys.values():
            calls = [call for session in key.sessions.values() for call in session.calls.values()]
            for queue, room in ((key.small, ROOM // 4), (key.large, ROOM)):
                assert queue.bytes == sum(call.size for call in queue) <= room
            assert len(key.small) + len(key.large) == sum(call.answer is not None for call in calls)
            running = [call for call in calls if call.answer is None]
            assert key.waiting == sum(len(call.replies) or 1 for call in running) <= MOST
            for session in key.sessions.values():
                edges = [n for pair in zip(session.starts, session.ends, strict=True) for n in pair]
                assert edges == sorted(edges)
                assert len(session.starts) <= call_table.MAX_RANGES

    def run(self) -> None:
        often = [self.call, self.deliver, self.deliver, self.send_again, self.finish, self.connect]
        seldom = [self.disconnect, self.give_up, self.attach, self.wait]
        for _ in range(3):
            self.connect()
        for _ in range(self.random.randint(20, 150)):
            self.random.choice(often * 4 + seldom + [self.restart] * (self.random.random() < 0.1))()
            self.check()


@given(st.randoms(use_true_random=False))
@settings(max_examples=many(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_call_runs_twice_and_no_answer_is_that_of_another(random: Random) -> None:
    History(random).run()


@given(st.randoms(use_true_random=False))
@settings(max_examples=many(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_session_with_many_gaps_loses_late_calls_and_runs_none_twice(random: Random) -> None:
    call_table.MAX_RANGES, before = 2, call_table.MAX_RANGES
    try:
        History(random).run()
    finally:
        call_table.MAX_RANGES = before


@pytest.mark.slow
@pytest.mark.once
def test_twenty_thousand_histories_run_no_call_twice() -> None:
    seen: Counter[CallOutcome] = Counter()
    for seed in range(20_000):
        history = History(Random(seed))
        history.run()
        seen += history.seen
    assert min(seen[outcome] for outcome in CallOutcome) > 1000


def test_a_late_first_call_runs_after_a_later_answer_was_dropped() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    answered(table, session, 2, ROOM + 1)
    assert table.admit(session, 2, 0, "way") is LOST
    assert table.admit(session, 1, 0, "way") is RUNS


def test_a_call_that_was_cancelled_before_it_came_never_runs() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    assert not table.cancel(session, 1)
    assert table.admit(session, 1, 0, "way") is LOST


@pytest.mark.parametrize("floor", [2, 50])
def test_settled_answers_are_forgotten_and_no_others(floor: int) -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    for number in (1, floor - 1, floor, floor + 1):
        if number not in session.calls:
            answered(table, session, number)
    assert table.admit(session, floor + 2, floor, "way") is RUNS
    outcomes = [table.admit(session, number, 0, "way") for number in (1, floor - 1, floor, floor + 1)]
    assert outcomes == [LOST, LOST, ANSWERED, ANSWERED]


def test_the_answer_of_a_call_that_was_given_up_can_still_be_fetched() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    table.admit(session, 1, 0, "way")
    call = session.calls[1]
    assert table.cancel(session, 1)
    table.admit(session, 2, 2, "way")
    table.finish(call, "done", 4, 0.0)
    assert table.find("k", "a", 1) is call
    assert table.find("other", "a", 1) is None
    table.expire(KEPT)
    assert table.find("k", "a", 1) is None


def test_all_who_wait_get_the_answer() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    table.admit(session, 1, 0, "first")
    call = session.calls[1]
    assert [table.join(call, way) for way in ("second", "third")] == [JOINED, JOINED]
    table.leave(call, "second")
    assert table.finish(call, "done", 4, 0.0) == ["first", "third"]


def test_large_answers_displace_no_small_one() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    answered(table, session, 1)
    for number in range(2, 20):
        answered(table, session, number, 15_000)
    assert sorted(session.calls) == [1, 18, 19]


def test_an_answer_that_is_larger_than_the_room_displaces_none() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    answered(table, session, 1, 5000)
    answered(table, session, 2, ROOM + 1)
    assert list(session.calls) == [1]


def test_a_long_call_that_holds_the_floor_back_costs_one_range() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    table.admit(session, 1, 1, "way")
    for number in range(2, 5000):
        answered(table, session, number)
    table.expire(KEPT)
    assert (session.starts, session.ends) == ([2], [4999])


def test_a_session_with_too_many_gaps_joins_the_lowest_and_forgets_no_call() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    for number in range(0, 20_000, 2):
        table.cancel(session, number)
    assert len(session.starts) == call_table.MAX_RANGES
    assert {table.admit(session, number, 0, "way") for number in range(0, 20_000, 2)} == {LOST}
    assert table.admit(session, 1, 0, "way") is LOST
    assert table.admit(session, 19_997, 0, "way") is RUNS


def test_too_many_calls_of_a_key_are_refused_and_run_when_there_is_room() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    for number in range(MOST):
        table.admit(session, number, 0, "way")
    with pytest.raises(Refused, match="wait for some"):
        table.admit(session, MOST, 0, "way")
    assert table.admit(table.open("other", "a", b""), MOST, 0, "way") is RUNS
    table.finish(session.calls[0], "done", 4, 0.0)
    assert table.admit(session, MOST, 0, "way") is RUNS


def test_a_session_ends_when_it_had_no_connection_for_long() -> None:
    table = new_table()
    session = table.open("k", "a", b"resume")
    answered(table, session, 1)
    table.close(session, 0.0)
    table.expire(call_table.SILENT - 1)
    assert table.session("k", "a") is session
    assert session.resume_key == b"resume"
    table.expire(call_table.SILENT)
    assert not table._keys


def test_a_session_that_said_goodbye_runs_nothing_any_more() -> None:
    table = new_table()
    session = table.open("k", "a", b"")
    answered(table, session, 1)
    session.settle(float("inf"))
    assert table.admit(session, 2, 0, "way") is LOST
    table.close(session, 0.0)
    table.expire(call_table.SILENT)
    assert not table._keys


def test_the_longest_silent_session_makes_room_for_another() -> None:
    table = new_table()
    sessions = [table.open("k", str(name), b"") for name in range(call_table.MAX_SESSIONS)]
    with pytest.raises(Refused, match="close some"):
        table.open("k", "new", b"")
    answered(table, sessions[5], 1)
    table.admit(sessions[6], 1, 0, "way")
    for number in (6, 5, 7):
        table.close(sessions[number], float(number))
    table.open("k", "new", b"")
    assert table.find("k", "5", 1) is None
    assert table.find("k", "6", 1) is not None


def test_the_bytes_that_are_counted_are_those_that_are_taken() -> None:
    table: CallTable[bytes, bytes] = CallTable(most=20_000)
    session = table.open("k", "a", b"")
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(10_000):
            table.admit(session, number + 1000, 0, b"")
            table.finish(session.calls[number + 1000], bytes(100), 100, 0.0)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.5 * session.key.small.bytes < taken < session.key.small.bytes
