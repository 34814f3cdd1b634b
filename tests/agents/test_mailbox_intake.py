"""What comes out of a mailbox at its reader: for callbacks, with and without frames, and for sinks."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pytest

from pzc import Gap, Keyring, Subscription, acknowledge, mailbox
from pzc.agents.notifications.columns import Burst, Missed
from pzc.agents.notifications.links.mailbox import MailboxIntake
from pzc.agents.notifications.links.reader_transports import Received
from pzc.agents.notifications.links.roster import MailboxShare, Roster
from pzc.protocol import serializers
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind
from pzc.protocol.ids import MessageIds
from pzc.protocol.link_messages import Loss, Notify, Row, Run
from pzc.protocol.peer import Peer
from pzc.protocol.records import Record, Records
from pzc.transport.counters import Counters
from pzc.transport.executor import Executor
from pzc.transport.wire import Protocol

EPOCH, MS, KEY = 7, 1_700_000_000_123, "a long secret of lab"
PUBLISHER = "ab" * 16


@dataclass
class Sink:
    """Keeps what it gets."""

    bursts: list[Burst] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    paused = False

    def take(self, burst: Burst) -> None:
        self.bursts.append(burst)

    def miss(self, missed: Missed) -> None:
        self.missed.append(missed)

    @property
    def numbers(self) -> list[tuple[str, int]]:
        return [
            (topic, row.number)
            for each in self.bursts
            for topic, row in zip(each.topics, each.rows, strict=True)
        ]


class Bench:
    """An intake, and the subscriptions to a mailbox."""

    def __init__(self, executor: Executor, seal: bool = False) -> None:
        self.codec = Codec(Keyring.from_key(KEY), seal=seal)
        key_id = Keyring.from_key(KEY).active.key_id
        self._records = Records(self.codec, PUBLISHER, MessageIds(EPOCH))
        peer = Peer("tcp://127.0.0.1:1", "PZC01", PUBLISHER, EPOCH, "psu", "", 0, {}, key_id)
        self.roster, self._executor, self._key_id = Roster(), executor, key_id
        self.intake = MailboxIntake(
            Protocol(KEY), peer, Counters(), lambda *_: None, lambda settle: settle(), self.roster
        )

    def subscribe(self, topic: str = "t", *, confirmed: bool = True, **how: Any) -> Subscription:
        raw, manual, sink, key = (how.get(name) for name in ("raw", "manual", "sink", "key"))
        made = Subscription(
            PUBLISHER, topic, None, mailbox(), key, self._executor, lambda _: None, bool(raw or sink)
        )
        made.manual_ack, made.sink = bool(manual or sink), sink
        share = MailboxShare(made, len(self.roster) + 1, Future())
        self.roster.add(share)
        if confirmed:
            share.begin(EPOCH, {topic: 0})
        return made

    def row(self, number: int, topic: str = "t") -> Row:
        body = serializers.encode("pickle", number)
        record = Record(topic, number, MS, "", "pickle", body)
        self._records.seal([record], Lock())
        return record.proven

    def take(
        self, first: int, *runs: tuple[str, list[int], list[Row]], losses: list[Loss] | None = None
    ) -> None:
        notify = Notify(first, [Run(topic, interests, rows) for topic, interests, rows in runs], losses or [])
        for errand in self.intake.take(Received(notify, self._key_id))[1]:
            errand()

    @property
    def upto(self) -> int:
        report = self.intake.arrivals.report(always=True)
        assert report is not None
        return report.upto


@pytest.fixture(params=["hmac-sha256", "aes256-gcm"])
def bench(request: pytest.FixtureRequest, executor: Executor) -> Bench:
    return Bench(executor, request.param)


def test_frames_contents_and_acknowledgements_of_one_message_end_apart(bench: Bench) -> None:
    plain, raw, manual = bench.subscribe(), bench.subscribe(raw=True), bench.subscribe(manual=True)
    bench.take(1, ("t", [1, 2, 3], [bench.row(1)]))
    frames = raw.recv(0).frames
    assert bench.codec.open(frames, kind=Kind.NOTIFICATION).decode() == 1
    assert (plain.recv(0).content, bench.upto) == (1, 0)
    kept = manual.recv(0)
    assert (kept.content, bench.upto) == (1, 0)
    acknowledge([kept, kept])
    assert bench.upto == 1


def test_what_is_acknowledged_by_hand_ends_unread_when_its_subscription_does(bench: Bench) -> None:
    manual = bench.subscribe(manual=True)
    bench.take(1, ("t", [1], [bench.row(1), bench.row(2)]))
    kept = manual.recv(0)
    manual.close()
    assert (bench.upto, kept.content) == (0, 1)
    kept.acknowledge()
    assert bench.upto == 2


def test_rows_that_all_go_to_one_sink_are_one_burst(bench: Bench) -> None:
    sink = Sink()
    every, one = bench.subscribe("*", sink=sink), bench.subscribe("t", sink=sink)
    bench.take(1, ("t", [1, 2], [bench.row(1)]), ("u", [1], [bench.row(1, "u"), bench.row(2, "u")]))
    [burst] = sink.bursts
    assert sink.numbers == [("t", 1), ("u", 1), ("u", 2)]
    frames = (burst.headers[2], b"pickle", burst.bodies[2], burst.rows[2].msgid, burst.rows[2].signature)
    assert bench.codec.open(frames, kind=Kind.NOTIFICATION).decode() == 2
    assert (every.received, one.received, bench.upto) == (3, 1, 0)
    burst.done()
    assert bench.upto == 3


def test_a_repeated_answer_is_poured_once(bench: Bench) -> None:
    sink = Sink()
    bench.subscribe(sink=sink)
    rows = [bench.row(number) for number in (1, 2, 3)]
    bench.take(1, ("t", [1], rows[:2]))
    bench.take(1, ("t", [1], rows))
    bench.take(1, ("t", [1], rows))
    assert sink.numbers == [("t", 1), ("t", 2), ("t", 3)]


@pytest.mark.parametrize("other", [{}, {"key": ""}, {"sink": Sink()}], ids=["none", "key", "another"])
def test_what_others_want_as_well_goes_to_inboxes(bench: Bench, other: dict[str, Any]) -> None:
    sink = Sink()
    one, two = bench.subscribe(sink=sink), bench.subscribe(raw=True, manual=True, **other)
    bench.take(1, ("t", [1, 2], [bench.row(1)]))
    assert (sink.bursts, one.pending, two.pending) == ([], 1, 1)


def test_a_burst_waits_until_all_subscriptions_are_confirmed(bench: Bench) -> None:
    sink = Sink()
    bench.subscribe("*", sink=sink)
    late = bench.subscribe("u", sink=sink, confirmed=False)
    bench.take(1, ("t", [1], [bench.row(1)]))
    assert sink.bursts == []
    for share in bench.roster:
        if share.subscription is late:
            share.begin(EPOCH, {"u": 0})
    bench.intake.flow()
    assert sink.numbers == [("t", 1)]


def test_rows_with_the_frames_of_others_are_refused_and_told(bench: Bench) -> None:
    sink = Sink()
    subscription = bench.subscribe(sink=sink)
    good, bad = bench.row(1), bench.row(3)
    bench.take(1, ("t", [1], [good, Row(2, MS, "", "pickle", b"", msgid=b"x", signature=bad.signature)]))
    assert sink.numbers == [("t", 1)]
    assert [(missed.gap, missed.reason) for missed in sink.missed] == [(Gap(EPOCH, 2, 2), "refused")]
    sink.bursts[0].done()
    assert (bench.upto, subscription.dropped) == (2, 1)


def test_a_message_of_nothing_but_bad_rows_is_done_with(bench: Bench) -> None:
    sink = Sink()
    bench.subscribe(sink=sink)
    bench.take(1, ("t", [1], [Row(1, MS, "", "pickle", b"")]))
    assert (sink.bursts, bench.upto) == ([], 1)


def test_losses_are_told_to_the_sink(bench: Bench) -> None:
    sink = Sink()
    bench.subscribe(sink=sink)
    bench.take(1, ("t", [1], [bench.row(4)]), losses=[Loss(1, "t", 3, 3)])
    assert [(missed.topic, missed.gap, missed.reason) for missed in sink.missed] == [
        ("t", Gap(EPOCH, 1, 3), "evicted")
    ]  # fmt: skip
