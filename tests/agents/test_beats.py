from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from pzc import Agent, DecodeError, Gap, Keyring, Protocol, drop
from pzc.agents.notifications.filters import mark_filter
from pzc.agents.notifications.heartbeat import BEAT_TOPIC, Heartbeat, beat_filter, lasts_of
from pzc.delivery.tails import BEATS
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind

from tests.agents.receiving import leased
from tests.contract.rigs import altered
from tests.contract.rigs.peers import KEY, TIMEOUT, Elsewhere, Forwarder, Frames, balance

publisher = altered.publisher

pytestmark = pytest.mark.usefixtures("broadcast")

NEVER = 1_000.0


def is_beat(frames: Frames) -> bool:
    return f"+{BEAT_TOPIC}+".encode() in frames[0]


def number_of(frames: Frames) -> int:
    return int(frames[0].split(b"+")[3])


def told_by(frames: Frames) -> dict[str, int]:
    """The last numbers that a beat tells."""
    return {last.topic: last.number for last in lasts_of(Protocol(KEY).parse(frames)[2])}


class Listener:
    """Waits for the beats of a publisher, which go to everybody at once."""

    def __init__(self, publisher: Elsewhere, *prefixes: bytes) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
        self.socket.connect(publisher.pub_endpoint)
        for prefix in prefixes or (beat_filter(publisher.agent_id),):
            self.socket.subscribe(prefix)

    def wait(self, number: int) -> None:
        """Until a beat tells that this is the last number."""
        while told_by(self.socket.recv_multipart()) != {"t": number}:
            pass

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *exc: object) -> None:
        self._context.destroy(0)


def test_a_message_that_was_told_as_lost_is_refused_when_it_comes(
    publisher: Elsewhere, reader: Agent, timings: Callable[..., None]
) -> None:
    timings(topic_beat=0.01)
    late: list[Frames] = []
    told = threading.Event()

    def overtake(_: int, frames: Frames) -> list[Frames]:
        if is_beat(frames):
            if told_by(frames) != {"t": 3} or told.is_set():
                return [frames]
            told.set()
            return [frames, *late]
        if number_of(frames) in (2, 3):
            late.append(frames)
            return []
        return [frames]

    with Forwarder(publisher.pub_endpoint, overtake) as forwarder:
        publisher.advertised = forwarder.endpoint
        with reader.subscribe(publisher.rep_endpoint, "t") as subscription:
            for number in (1, 2, 3):
                publisher.publish("t", number)
            assert told.wait(TIMEOUT)
            publisher.publish("t", 4)
            assert [subscription.recv(TIMEOUT).sequence for _ in range(2)] == [1, 4]
            assert subscription.gaps == [Gap(publisher.epoch, 2, 3)]
            assert balance(subscription) == 4
            assert reader.counters["notifications_repeated"] == 2


@pytest.mark.usefixtures("beside_originals")
def test_an_original_peer_never_sees_a_beat(publisher: Elsewhere) -> None:
    with Listener(publisher, b"PZC00+") as original, Listener(publisher) as beats:
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
        with Agent(protocol=Protocol(KEY)) as reader:
            reader.subscribe(publisher.rep_endpoint, "t")
            publisher.publish("t", 1)
            beats.wait(1)
            publisher.publish("t", 2)
            parse = Protocol(KEY, dialect="PZC00").parse
            assert [parse(original.socket.recv_multipart())[2] for _ in range(2)] == [1, 2]


def test_a_beat_reaches_no_subscription(publisher: Elsewhere, reader: Agent) -> None:
    everything = reader.subscribe(publisher.rep_endpoint, "*", raw=True)
    with Listener(publisher) as beats:
        publisher.publish("t", 1)
        beats.wait(1)
        publisher.publish("t", 2)
        assert [everything.recv(TIMEOUT).topic for _ in range(2)] == ["t", "t"]


def test_what_tells_no_numbers_is_no_beat() -> None:
    with pytest.raises(DecodeError, match="last numbers were expected"):
        lasts_of({"t": 1})


class Clock:
    """A loop of a test: functions run when it says so."""

    def __init__(self) -> None:
        self.due: list[Any] = []

    def call_later(self, delay: float, function: Callable[[], object]) -> Clock:
        self.due.append(function)
        return self

    def cancel(self) -> None:
        self.due.clear()

    def strike(self) -> None:
        self.due.pop(0)()


class Beating:
    def __init__(self, wanted: bool = True) -> None:
        self.clock, self.wanted, self.told = Clock(), wanted, list[dict[str, int]]()
        self._codec = Codec(Keyring.from_key(KEY))
        loop: Any = self.clock
        self.beats = Heartbeat(loop, Protocol(KEY), "0" * 32, lambda: self.wanted, self._take)

    def _take(self, frames: Any) -> None:
        envelope = self._codec.open(frames, kind=Kind.NOTIFICATION)
        assert (envelope.topic, envelope.sequence) == (BEAT_TOPIC, 0)
        self.told.append({last.topic: last.number for last in lasts_of(envelope.decode())})


def test_without_a_message_no_timer_runs() -> None:
    beating = Beating()
    assert beating.clock.due == []
    beating.beats.sent("t", 1)
    for _ in range(BEATS):
        beating.clock.strike()
    assert beating.clock.due == []
    beating.beats.close()
    assert beating.told == [{"t": 1}] * 7


def test_one_timer_runs_however_many_messages_there_are() -> None:
    beating = Beating()
    for number in range(1, 4):
        beating.beats.sent("t", number)
    assert len(beating.clock.due) == 1
    beating.clock.strike()
    assert (len(beating.clock.due), beating.told) == (1, [{"t": 3}])


def test_nothing_is_told_to_nobody() -> None:
    beating = Beating(wanted=False)
    beating.beats.sent("t", 1)
    beating.clock.strike()
    assert beating.told == []
    beating.wanted = True
    beating.clock.strike()
    assert beating.told == [{"t": 1}]


def test_many_topics_are_told_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pzc.agents.notifications.heartbeat._TOPIC_BEAT_TOPICS", 2)
    beating = Beating()
    for topic in "abcde":
        beating.beats.sent(topic, 1)
    beating.clock.strike()
    assert beating.told == [{"a": 1, "b": 1}, {"c": 1, "d": 1}, {"e": 1}]


class Counting(str):
    """A topic that counts how often it is looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        type(self).looked_up += 1
        return super().__hash__()


def test_a_beat_costs_nothing_for_topics_that_were_sent_long_ago() -> None:
    beating = Beating(wanted=False)
    for number in range(100):
        beating.beats.sent(Counting(f"old{number}"), 1)
    for _ in range(BEATS):
        beating.clock.strike()
    Counting.looked_up, beating.wanted = 0, True
    beating.beats.sent("t", 1)
    beating.clock.strike()
    assert (Counting.looked_up, beating.told) == (0, [{"t": 1}])


def test_a_closed_publisher_keeps_no_timer() -> None:
    beating = Beating()
    beating.beats.sent("t", 1)
    beating.beats.close()
    beating.beats.sent("t", 2)
    assert (beating.clock.due, beating.told) == ([], [{"t": 1}])


@pytest.mark.parametrize("topic", ["t", "*"])
def test_who_comes_after_what_nobody_was_sent_is_told_how_far_it_is(publisher: Elsewhere, topic: str) -> None:
    for number in range(3):
        publisher.publish("t", number)
    mark = mark_filter(publisher.agent_id, "who.1", topic)
    with Listener(publisher, beat_filter(publisher.agent_id), mark) as beats:
        assert told_by(beats.socket.recv_multipart()) == {"t": 3}


PUBLISHER = """
import sys, threading
from pzc import Agent, Protocol
from pzc.testing import Timings

key, count = sys.argv[1], int(sys.argv[2])
with Timings(high_water_mark=5, topic_beat=0.05), Agent(protocol=Protocol(key)) as agent:
    print(agent.rep_endpoint, flush=True)
    sys.stdin.readline()
    for _ in range(count):
        agent.publish("t", bytes(32 << 10))
        agent.loop.run(bool)  # slower than libzmq, so that what is lost is lost behind what stands still
    told = threading.Event()
    agent.loop.call_later(0.06, told.set)  # the timer of the beat is due before
    told.wait()
    print("told", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
def test_a_reader_that_stood_still_counts_what_its_queues_could_not_hold(
    reader: Agent, timings: Callable[..., None]
) -> None:
    """The first beats are lost with the tail."""
    timings(high_water_mark=5)
    count = 1_000
    told: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    still = threading.Event()
    process = subprocess.Popen(
        [sys.executable, "-c", PUBLISHER, KEY, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            endpoint = process.stdout.readline().strip()
            subscription = reader.subscribe(endpoint, "t", policy=drop(count))
            subscription.on_gap = told.put
            with leased() as received:
                received.loop.call(lambda: still.wait(TIMEOUT))
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "told\n"
            still.set()
            while balance(subscription) < count:
                told.get(timeout=TIMEOUT)
            assert balance(subscription) == count
            assert subscription.gaps[-1].last == count
        finally:
            still.set()
            process.kill()
