"""Mailboxes that give the five frames of each message, and keep each until it was acknowledged by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pzc import Agent, Keyring, Notification, Protocol
from pzc.agents.notifications.columns import Burst, Missed
from pzc.agents.notifications.links.mailbox_subscriber import MailboxSubscriber
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind

from tests.agents.in_parts import InParts, parts_and_reader
from tests.contract.rigs.mailing import NAMED, Kept, delivered, publisher_and_reader
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, Inbox

CODEC = Codec(Keyring.from_key(KEY))


def boxes(publisher: InParts) -> list[MailboxSubscriber]:
    return [each for each in publisher.publishing.subscribers.all() if isinstance(each, MailboxSubscriber)]


def contents(notifications: list[Notification]) -> list[Any]:
    """As somebody reads them who has nothing but their frames and the key."""
    return [CODEC.open(each.frames, kind=Kind.NOTIFICATION).decode() for each in notifications]


@pytest.mark.parametrize("key", [None, "a b"])
def test_the_frames_are_verified_without_any_session(key: str | None) -> None:
    kept = Kept()
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", kept, policy=NAMED, raw=True)
        for number in range(10):
            publisher.publish("t", {"n": number}, key=key)
        found = kept.wait(10)
        assert contents(found) == [{"n": number} for number in range(10)]
        for number, each in enumerate(found, 1):
            envelope = CODEC.open(each.frames, kind=Kind.NOTIFICATION)
            told = (each.publisher, each.topic, each.sequence, each.epoch, each.key, each.key_id)
            assert told == (publisher.agent_id, "t", number, publisher.epoch, key or "", envelope.key_id)
            assert (envelope.sender, envelope.topic, envelope.sequence, envelope.epoch) == told[:4]
            assert each.sent_at == pytest.approx(envelope.sent_ms / 1000)  # type: ignore[operator]
            assert (each.content, each.size) == (None, len(each.frames[2]))
        wait_until(lambda: delivered(publisher) == 10)


def test_plain_subscriptions_share_a_mailbox_with_raw_ones() -> None:
    raw, plain = Kept(), Inbox()
    with Agent(protocol=Protocol(KEY, seal=True)) as publisher, Agent(protocol=Protocol(KEY)) as agent:
        agent.subscribe(publisher.rep_endpoint, "t", plain, policy=NAMED)
        agent.subscribe(publisher.rep_endpoint, "t", raw, policy=NAMED, raw=True)
        for number in range(5):
            publisher.publish("t", number)
        assert plain.contents(5) == list(range(5)) == contents(raw.wait(5))
        wait_until(lambda: delivered(publisher) == 5)


def test_large_arrays_come_with_their_frames() -> None:
    kept = Kept()
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", kept, policy=NAMED, raw=True)
        for number in range(3):
            publisher.publish("t", np.full(1 << 17, number, "f8"))
        assert [content.mean() for content in contents(kept.wait(3))] == [0.0, 1.0, 2.0]


# --- sinks -------------------------------------------------------------------------------------------------


class Pouring:
    """A sink that keeps what it gets."""

    def __init__(self, then: Callable[[Burst], object] = lambda burst: burst.done()) -> None:
        self.bursts: list[Burst] = []
        self.missed: list[Missed] = []
        self.paused = False
        self._then = then

    def take(self, burst: Burst) -> None:
        self.bursts.append(burst)
        self._then(burst)

    def miss(self, missed: Missed) -> None:
        self.missed.append(missed)

    @property
    def numbers(self) -> list[tuple[str, int]]:
        return [
            (topic, row.number)
            for burst in self.bursts
            for topic, row in zip(burst.topics, burst.rows, strict=True)
        ]


def pour(agent: Agent, publisher: Agent | InParts, sink: Pouring, *topics: str) -> None:
    for topic in topics:
        agent.subscribe(publisher.rep_endpoint, topic, policy=NAMED, raw=True, manual_ack=True, sink=sink)


@pytest.mark.parametrize("topics", [["*"], ["t", "u"], ["*", "t"]])
def test_a_sink_takes_everything_once_and_in_order(topics: list[str]) -> None:
    sink = Pouring()
    with publisher_and_reader() as (publisher, agent):
        pour(agent, publisher, sink, *topics)
        for number in range(100):
            publisher.publish("t", number)
            publisher.publish("u", number)
        wait_until(lambda: len(sink.numbers) == 200)
        for topic in ("t", "u"):
            assert [n for name, n in sink.numbers if name == topic] == list(range(1, 101))
        wait_until(lambda: delivered(publisher) == 200)
        burst = sink.bursts[0]
        frames = (
            burst.headers[0],
            b"pickle",
            burst.bodies[0],
            burst.rows[0].msgid,
            burst.rows[0].signature,
        )
        assert CODEC.open(frames, kind=Kind.NOTIFICATION).decode() == 0


def test_a_paused_sink_gets_nothing_until_it_goes_on() -> None:
    sink = Pouring()
    with parts_and_reader() as (publisher, agent):
        pour(agent, publisher, sink, "*")
        publisher.publish("t", 1)
        wait_until(lambda: delivered(publisher) == 1)
        sink.paused = True
        wait_until(lambda: [each.queue.room for each in boxes(publisher)] == [0])
        publisher.publish("t", 2)
        assert len(sink.numbers) == 1
        sink.paused = False
        wait_until(lambda: delivered(publisher) == 2)


def test_a_sink_is_told_of_the_topic_that_lost_messages() -> None:
    sink = Pouring()
    with parts_and_reader() as (publisher, agent):
        pour(agent, publisher, sink, "*")
        publisher.publish("t", 1)
        wait_until(lambda: delivered(publisher) == 1)
        publisher.forget_silent_readers()
        publisher.publish("t", 2)
        wait_until(lambda: len(sink.missed) == 1)
        (missed,) = sink.missed
        told = (missed.publisher, missed.topic, missed.gap.first, missed.gap.last, missed.reason)
        assert told == (publisher.agent_id, "t", 2, 2, "forgotten")
