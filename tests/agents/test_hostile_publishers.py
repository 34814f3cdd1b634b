from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from pzc import (
    Agent,
    Gap,
    Protocol,
)
from pzc.agents.notifications.broadcast_in import BroadcastIn, Source
from pzc.agents.notifications.shares import BroadcastShare
from pzc.protocol.peer import Peer
from pzc.transport.counters import Counters

from tests.agents.receiving import leased
from tests.agents.stamped import of_yesterday
from tests.agents.subscriptions import Make
from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    Elsewhere,
    Frames,
    Wire,
    balance,
)

pytestmark = pytest.mark.usefixtures("broadcast")


class Forger:
    """An agent whose notifications come from a wire in the hands of the test."""

    def __init__(self, protocol: Protocol) -> None:
        self.wire = Wire()
        self.agent = Elsewhere(protocol=protocol)
        self.agent.advertised = self.wire.endpoint
        self.protocol = protocol
        self._back = self.wire.context.socket(zmq.XSUB)
        self._back.setsockopt(zmq.LINGER, 0)
        self._back.connect(self.agent.pub_endpoint)
        self._stop = threading.Event()

    def _relay(self) -> None:
        """Hand the filters of the wire on, so that the agent confirms subscriptions."""
        while not self._stop.is_set():
            if self.wire.socket.poll(20):
                self._back.send(self.wire.socket.recv())

    def subscribe(self, reader: Agent, topic: str, *args: Any, **options: Any) -> Any:
        placing = threading.Thread(target=self._relay)
        self._stop.clear()
        placing.start()
        try:
            return reader.subscribe(self.agent.rep_endpoint, topic, *args, **options)
        finally:
            self._stop.set()
            placing.join()

    def note(self, topic: str, content: object, sequence: int, protocol: Protocol | None = None) -> Frames:
        made = (protocol or self.protocol).encode(self.agent.agent_id, topic, content, sequence=sequence)
        return [bytes(frame) for frame in made]

    def close(self) -> None:
        self._back.close(0)
        self.agent.stop()
        self.wire.close()


@pytest.fixture
def reader() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


@pytest.fixture
def forger() -> Iterator[Forger]:
    made = Forger(Protocol(KEY))
    yield made
    made.close()


@pytest.mark.parametrize("key", ["", "another key of the lab"])
def test_a_forger_without_the_key_is_refused_and_counted(reader: Agent, forger: Forger, key: str) -> None:
    subscription = forger.subscribe(reader, "t")
    hostile = Protocol(key)
    forger.wire.send(
        *(forger.note("t", "forged", number, hostile) for number in range(1, 6)), forger.note("t", "true", 1)
    )
    assert subscription.recv(TIMEOUT).content == "true"
    assert reader.counters["refused_SignatureError"] == 5
    assert reader.counters["notifications"] == 1
    assert (subscription.gaps, balance(subscription)) == ([], 1)


def test_a_replayed_notification_is_refused_and_counted(reader: Agent, forger: Forger) -> None:
    subscription = forger.subscribe(reader, "*")
    captured = forger.note("t", "once", 1)
    forger.wire.send(captured, captured, captured, forger.note("t", "end", 2))
    assert [subscription.recv(TIMEOUT).content for _ in range(2)] == ["once", "end"]
    assert reader.counters["refused_ReplayedMessage"] == 2
    assert balance(subscription) == 2


def test_a_notification_of_yesterday_is_refused(reader: Agent, forger: Forger) -> None:
    subscription = forger.subscribe(reader, "t")
    forger.wire.send(*[of_yesterday(forger.agent, 1)] * 50, forger.note("t", "new", 1))
    assert subscription.recv(TIMEOUT).content == "new"
    assert reader.counters["refused_StaleMessage"] == 50
    assert subscription.gaps == []


def _junk(random_: random.Random, forger: Forger) -> Frames:
    good = forger.note("t", "junk", 1)
    prefix = f"PZC01+{forger.agent.agent_id}+t+".encode()
    choice = random_.randrange(6)
    if choice == 0:
        return [prefix + random_.randbytes(random_.randrange(50))]
    if choice == 1:
        return [prefix, *(random_.randbytes(random_.randrange(200)) for _ in range(random_.randrange(9)))]
    if choice == 2:
        position = random_.randrange(1, 5)
        return [*good[:position], random_.randbytes(len(good[position])), *good[position + 1 :]]
    if choice == 3:
        return [*good[:4], b""]
    if choice == 4:
        return [good[0] + b"\xff\xfe", *good[1:]]
    return [prefix + b"9" * 3_000, *good[1:]]


def test_random_bytes_are_refused_and_the_agent_stays_up(reader: Agent, forger: Forger) -> None:
    subscription = forger.subscribe(reader, "t")
    source = random.Random(4711)
    forger.wire.send(*(_junk(source, forger) for _ in range(500)), forger.note("t", "alive", 1))
    assert subscription.recv(TIMEOUT).content == "alive"
    assert reader.counters["notifications_refused"] == 500
    assert reader.loop.errors == 0
    assert reader.request(forger.agent.rep_endpoint, "ping") == "pong"


def test_what_was_sent_by_another_agent_is_not_taken_for_this_one(make: Make) -> None:
    protocol, counters, own, stranger = Protocol(KEY), Counters(), "ab" * 16, "cd" * 16
    subscription = make()
    share = BroadcastShare(
        subscription, Peer("", "PZC01", own, 0, "", "", 0, {}, protocol.publishing_key), ""
    )
    share.begin(protocol.epoch, {"t": 0})
    source = Source(share.peer)
    source.shares["t"].append(share)
    with leased() as received, zmq.Context() as context:
        ends = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        ends[0].bind("inproc://come")
        ends[1].connect("inproc://come")
        come = BroadcastIn(received.loop, protocol, counters, {own: source}, bool)
        for sender in (stranger, own):
            ends[0].send_multipart(protocol.encode(sender, "t", sender, sequence=1))
            come.take(ends[1])
        for each in ends:
            each.close(0)
    assert subscription.recv(TIMEOUT).content == own
    assert counters["notifications_unrouted"] == 1
    assert subscription.pending == 0


def test_without_keys_repeated_and_late_notifications_are_delivered_once() -> None:
    forger = Forger(Protocol(""))
    with Agent() as reader:
        subscription = forger.subscribe(reader, "t")
        sequences = [1, 2, 2, 1, 5, 3, 5, 6]
        forger.wire.send(*(forger.note("t", number, number) for number in sequences))
        assert [subscription.recv(TIMEOUT).content for _ in range(4)] == [1, 2, 5, 6]
        assert subscription.gaps == [Gap(forger.protocol.epoch, 3, 4)]
        assert (balance(subscription), reader.counters["notifications_repeated"]) == (6, 4)
    forger.close()
