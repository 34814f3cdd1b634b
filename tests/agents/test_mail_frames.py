"""Mailboxes of readers of frames: what is sealed when, who reads it, and who gives way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, Protocol, mailbox
from pzc.agents.notifications.links.gathering import PAUSE, SHARE, SMALL
from pzc.agents.notifications.links.mailbox_subscriber import MailboxSubscriber
from pzc.agents.notifications.links.topics import Wanted
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.link_messages import Notify
from pzc.protocol.message import Identity
from pzc.protocol.proofs import Proof, TagProver
from pzc.protocol.records import Record, Records
from pzc.shm.ring import Ring

from tests.agents.inside import subscribers
from tests.agents.mailbox_reader import Reader
from tests.contract.rigs.mailing import delivered, publisher_and_reader
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, Inbox

NAMED = mailbox(max_messages=100_000, name="archive")
CODEC = Codec(Keyring.from_key(KEY))


def mailboxes_of(publisher: Agent) -> list[MailboxSubscriber]:
    held = subscribers(publisher)
    with held.lock:
        return held.mailboxes.all()


def sealed(publisher: Agent) -> list[bool]:
    """Of each message that waits in the mailboxes whether it has its proof."""
    return [
        bool(letter.message.msgid)
        for subscriber in mailboxes_of(publisher)
        for letter in subscriber.queue._letters.values()
    ]


@pytest.fixture
def publisher() -> Iterator[Agent]:
    """A publisher with a mailbox for frames, whose reader never asks."""
    with Agent(protocol=Protocol(KEY, serializer="msgpack")) as agent:
        reader = Reader(agent, "archive")
        reader.open().want(1, "*", bound=100_000, raw=True)
        reader.agent.stop()
        agent.publish("t", -1)
        yield agent


def test_nothing_is_sealed_before_it_goes(publisher: Agent) -> None:
    publisher.publish("t", 1)
    publisher.publish("t", 2, key="k")
    publisher.publish("t", bytes(SMALL + 1))
    assert sealed(publisher) == [False] * 4


def test_what_is_broadcast_goes_to_mailboxes_with_the_same_proof(publisher: Agent) -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        agent.subscribe(publisher.rep_endpoint, "t", Inbox(), transport="tcp")
        publisher.publish("t", 1)
    assert sealed(publisher) == [False, True]


def test_all_readers_of_frames_get_the_same_ones(publisher: Agent) -> None:
    found: list[list[tuple[bytes, bytes]]] = []
    for name in ("first", "second"):
        reader = Reader(publisher, name)
        reader.open().want(1, "t", raw=True)
        found.append([])
        publisher.publish("t", name)
        reader.poll(TIMEOUT)
        found[-1] += [(row.msgid, row.signature) for row in reader.rows]
        reader.agent.stop()
    again = Reader(publisher, "first")
    again.open().want(1, "t", raw=True)
    again.poll(TIMEOUT)
    again.agent.stop()
    assert [(row.msgid, row.signature) for row in again.rows] == [*found[0], *found[1]]


class Watching(TagProver):
    """A prover, which looks whether somebody else could take a lock while it makes something."""

    def __init__(self, lock: threading.RLock, key: Key, ids: MessageIds) -> None:
        super().__init__(key, ids)
        self.lock = lock
        self.free: list[bool] = []

    def of(self, *given: Any) -> list[Proof | None]:
        other = threading.Thread(target=self._look)
        other.start()
        other.join(TIMEOUT)
        return super().of(*given)

    def _look(self) -> None:
        free = self.lock.acquire(timeout=1)
        self.free.append(free)
        if free:
            self.lock.release()


class Noting:
    """A way that notes what goes."""

    kind, limit, blocks, ready = "tcp", 1 << 20, False, True

    def __init__(self) -> None:
        self.sent: list[Notify] = []

    def send(self, notify: Notify, fd: int, contents: object) -> bool:
        self.sent.append(notify)
        return True

    def close(self) -> None:
        """Nothing is open."""


def test_nobody_waits_for_what_is_sealed() -> None:
    lock, way, ids = threading.RLock(), Noting(), MessageIds(1)
    assert CODEC.keyring is not None
    prover = Watching(lock, CODEC.keyring.publishing, ids)
    records = Records(CODEC, "a" * 32, ids, lambda *_: prover)
    subscriber = MailboxSubscriber(
        "a", Identity("", "b"), True, lock, Ring(), bool, 0.0, "", 1, None, records, 10
    )
    subscriber.follow(Wanted(1, "t", None, mailbox(), "", "", True), {"t": 0}, lambda *_: None)
    subscriber.attach(way, 0)
    subscriber.queue.room = 10
    for number in (1, 2):
        claims = subscriber.queue.matching("t", "")
        subscriber.post(Record("t", number, 0, "", "pickle", b"1"), claims, 0.0)
    subscriber.flush()
    assert prover.free == [True]
    [notify] = way.sent
    assert [(row.number, bool(row.signature)) for run in notify.runs for row in run.rows] == [
        (1, True),
        (2, True),
    ]


def test_every_notification_is_numbered_and_counted_whichever_way_it_goes(publisher: Agent) -> None:
    assert [publisher.publish("t", n, key=key) for n, key in enumerate(["", "k", "", ""])] == [2, 3, 4, 5]
    assert publisher.statistics()["mailboxes"][0]["waiting"] == 5
    assert publisher.statistics()["topics"]["t"]["published"] == 5


def test_frames_come_in_order_from_either_way() -> None:
    found: list[Any] = []
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", found.append, policy=NAMED, raw=True)
        for number in range(200):
            publisher.publish("t", number, key="k" if number % 7 == 0 else "")
        wait_until(lambda: len(found) == 200)
        opened = [CODEC.open(each.frames, kind=Kind.NOTIFICATION) for each in found]
        assert [each.decode() for each in opened] == list(range(200))
        assert [each.sequence for each in opened] == list(range(1, 201))
        wait_until(lambda: delivered(publisher) == 200)


def test_a_mailbox_of_frames_can_be_read_for_its_contents(publisher: Agent) -> None:
    inbox = Inbox()
    for number in range(5):
        publisher.publish("t", number)
    with Agent(protocol=Protocol(KEY)) as agent:
        agent.subscribe(publisher.rep_endpoint, "t", inbox, policy=NAMED)
        assert inbox.contents(6) == [-1, 0, 1, 2, 3, 4]


def test_a_mailbox_of_contents_is_charged_for_no_frames(publisher: Agent) -> None:
    reader = Reader(publisher)
    reader.open().want(1, "t")
    reader.agent.stop()
    publisher.publish("t", 1)
    publisher.publish("t", 2)
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
        assert [CODEC.open(each.frames).decode() for each in raw] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("since_heard", "waits", "pauses"), [(0.0, 6000, 2), (0.0, 100, 0), (10.0, 6000, 0)],
    ids=["fetching", "little waits", "silent"],
)  # fmt: skip
def test_who_publishes_gives_way_to_a_reader_that_fetches(
    publisher: Agent, since_heard: float, waits: int, pauses: int
) -> None:
    [subscriber] = mailboxes_of(publisher)
    for number in range(waits):
        publisher.publish("t", number)
    slept: list[float] = []
    held = subscribers(publisher)
    held.pause = slept.append
    for number in range(-held.numbers["t"] % SHARE + 1 + SHARE):
        subscriber.heard_at = time.monotonic() - since_heard
        publisher.publish("t", number)
    assert slept == [PAUSE] * pauses


def test_the_io_thread_never_gives_way(publisher: Agent) -> None:
    [subscriber] = mailboxes_of(publisher)
    slept: list[float] = []

    def publish_much() -> None:
        for number in range(6000):
            subscriber.heard_at = time.monotonic()
            publisher.publish("t", number)

    subscribers(publisher).pause = slept.append
    publisher.loop.run(publish_much)
    assert slept == []
    publish_much()
    assert slept
