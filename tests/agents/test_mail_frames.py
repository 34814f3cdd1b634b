"""Mailboxes of readers of frames: what is sealed when, who reads it, and who gives way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Agent, Protocol, mailbox
from pzc.agents.notifications.mail import pace
from pzc.agents.notifications.mail.bursts import Burst, Missed
from pzc.agents.notifications.mail.posting import SMALL
from pzc.delivery.mail import Caller, Command, CommandRequest, Commands, Message, PollRequest
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind
from pzc.protocol.keyring import Keyring

from tests.contract.rigs.mailing import delivered, publisher_and_reader
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, Inbox

NAMED = mailbox(max_messages=100_000, name="archive")
CODEC = Codec(Keyring.from_key(KEY))
READER = Caller("r" * 32, "archive", Keyring.from_key(KEY).active.key_id)


def payloads(publisher: Agent) -> list[Any]:
    boxes = publisher._publishing.mailboxes._boxes._boxes.values()
    messages = (message for box in boxes for message in box.mailbox._messages.part(0, len(box.mailbox)))
    return [message.payload for message in messages if isinstance(message, Message)]


@pytest.fixture
def publisher() -> Iterator[Agent]:
    """A publisher with a mailbox for frames, whose reader asked once and then no more."""
    with Agent(protocol=Protocol(KEY, serializer="msgpack")) as agent:
        boxes, outlets = agent._publishing.mailboxes._boxes, agent._publishing.outlets
        with outlets.lock:
            batch = Commands(1, [Command("*")], NAMED)
            position = boxes.command(READER, CommandRequest(1, None, batch), time.monotonic()).position  # type: ignore[union-attr]
            boxes.poll(READER, PollRequest(2, position, 0, 0, 0, 0.0, True), None, time.monotonic())  # type: ignore[arg-type]
            boxes.tick(time.monotonic())
            boxes._events.clear()
            outlets.routes.renew()
        agent.publish("t", -1)
        yield agent


def test_what_is_small_is_signed_when_it_is_published(publisher: Agent) -> None:
    publisher.publish("t", 1)
    publisher.publish("t", 2, key="k")
    publisher.publish("t", bytes(SMALL + 1))
    assert [each.record is not None for each in payloads(publisher)] == [True, True, True, False]


def test_every_notification_is_numbered_and_counted_whichever_way_it_goes(publisher: Agent) -> None:
    assert [publisher.publish("t", n, key=key) for n, key in enumerate(["", "k", "", ""])] == [2, 3, 4, 5]
    assert publisher.statistics()["mailboxes"][0]["waiting"] == 5
    assert publisher._publishing.outlets.meters["t"].messages == 5


def test_frames_come_in_order_from_either_way() -> None:
    found: list[Any] = []
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", found.append, policy=NAMED, raw=True)
        for number in range(200):
            publisher.publish("t", number, key="k" if number % 7 == 0 else "")
        wait_until(lambda: len(found) == 200)
        opened = [CODEC.open(each.frames, kind=Kind.NOTIFICATION) for each in found]
        assert [CODEC.content(each) for each in opened] == list(range(200))
        assert [each.sequence for each in opened] == list(range(1, 201))
        wait_until(lambda: delivered(publisher) == 200)


def test_a_mailbox_of_frames_can_be_read_for_its_contents(publisher: Agent) -> None:
    inbox = Inbox()
    for number in range(5):
        publisher.publish("t", number)
    assert any(each.record for each in payloads(publisher))
    with Agent(protocol=Protocol(KEY)) as agent:
        agent.subscribe(publisher.rep_endpoint, "t", inbox, policy=NAMED)
        assert inbox.contents(6) == [-1, 0, 1, 2, 3, 4]


def test_a_mailbox_of_contents_is_charged_for_no_frames(publisher: Agent) -> None:
    boxes, outlets = publisher._publishing.mailboxes._boxes, publisher._publishing.outlets
    with outlets.lock:
        boxes.command(Caller("o" * 32), CommandRequest(1, None, Commands(1, [Command("t")], mailbox())), 0.0)
        outlets.routes.renew()
    publisher.publish("t", 1)
    publisher.publish("t", 2)
    assert [each.record is None for each in payloads(publisher)] == [False, True, True, True, True]
    frames, contents = publisher.statistics()["mailboxes"]
    assert (contents["waiting"], contents["bytes"]) == (2, 2)
    assert frames["bytes"] > 600


def test_readers_of_contents_get_what_readers_of_frames_get() -> None:
    raw, plain = list[Any](), Inbox()
    with publisher_and_reader() as (publisher, agent), Agent(protocol=Protocol(KEY)) as other:
        agent.subscribe(publisher.rep_endpoint, "t", raw.append, policy=NAMED, raw=True)
        publisher.publish("t", 0)
        publisher.publish("t", 1)
        other.subscribe(publisher.rep_endpoint, "t", plain, policy=mailbox(name="other"))
        for number in (2, 3):
            publisher.publish("t", number)
        assert plain.contents(2) == [2, 3]
        wait_until(lambda: len(raw) == 4)
        assert [CODEC.content(CODEC.open(each.frames)) for each in raw] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("since_poll", "sent", "pauses"), [(0.0, False, 2), (0.0, True, 0), (10.0, False, 0)],
    ids=["fetching", "all of it sent", "silent"],
)  # fmt: skip
def test_who_publishes_gives_way_to_a_reader_that_fetches(
    publisher: Agent, monkeypatch: pytest.MonkeyPatch, since_poll: float, sent: bool, pauses: int
) -> None:
    (box,) = publisher._publishing.mailboxes._boxes._boxes.values()
    for number in range(6000):
        publisher.publish("t", number)
    slept: list[float] = []
    monkeypatch.setattr(pace, "sleep", slept.append)
    if sent:
        box.mailbox.sent = box.mailbox.next - 1
    begin = publisher._publishing.outlets.numbers["t"]
    for number in range(-begin % pace.SHARE + 1 + pace.SHARE):
        box.polled_at = time.monotonic() - since_poll
        publisher.publish("t", number)
    assert slept == [pace.PAUSE] * pauses


class Sink:
    """Notes how many came together, and is done with them at once."""

    paused = False

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def take(self, burst: Burst) -> None:
        self.sizes.append(len(burst.letters))
        burst.done()

    def miss(self, missed: Missed) -> None:
        raise AssertionError(missed)


def test_small_notifications_gather_for_readers_of_frames_and_for_no_others(
    timings: Callable[..., None],
) -> None:
    timings(mail_gathering=3600.0, mail_hold=4.0)
    sink, inbox = Sink(), Inbox()
    with publisher_and_reader() as (publisher, agent), Agent(protocol=Protocol(KEY)) as other:
        agent.subscribe(
            publisher.rep_endpoint, "t", print, policy=NAMED, raw=True, manual_ack=True, sink=sink
        )
        publisher.publish("t", bytes(SMALL + 1))  # goes at once
        wait_until(lambda: delivered(publisher) == 1)  # the poll that said so is held
        for number in range(11):
            publisher.publish("t", number)
            assert other.request(publisher.rep_endpoint, "echo", TIMEOUT) == "echo"  # it had time to go
        other.subscribe(publisher.rep_endpoint, "u", inbox, policy=mailbox(name="other"))
        waits = list[float]()
        for number in range(4):
            begin = time.monotonic()
            publisher.publish("u", number)
            assert inbox.contents(1) == [number]
            waits.append(time.monotonic() - begin)
            wait_until(lambda: delivered(publisher) == 12 + len(waits))
        assert min(waits[1:]) < 2.0  # before the time of a poll was over
        assert sum(sink.sizes) == 12
        assert len(sink.sizes) <= 4  # a poll whose time is over may come in between


def test_the_io_thread_never_gives_way(publisher: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    (box,) = publisher._publishing.mailboxes._boxes._boxes.values()
    slept: list[float] = []

    def publish_much() -> None:
        for number in range(6000):
            box.polled_at = time.monotonic()
            publisher.publish("t", number)

    monkeypatch.setattr(pace, "sleep", slept.append)
    publisher._publishing.mailboxes._loop.run(publish_much)
    assert slept == []
    publish_much()
    assert slept
