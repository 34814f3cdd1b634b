from __future__ import annotations

import gc
import logging
import os
import pickle
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from pzc import Gap, Notification, Protocol, Subscription, drop
from pzc.agents.client.peers import Peer
from pzc.agents.notifications.links.intake import Intake
from pzc.agents.notifications.links.reader_transports import Received
from pzc.agents.notifications.links.roster import LinkShare, Roster
from pzc.protocol.errors import ReceiveTimeout, RemoteProtocolError
from pzc.protocol.link_messages import Ended, Loss, Notify, Row, Run
from pzc.protocol.notification import Callback
from pzc.shm.blocks import Block
from pzc.transport.counters import Counters
from pzc.transport.executor import QUICK_PROOFS, Executor

EPOCH = 7
PEER = Peer("tcp://127.0.0.1:1", "PZC01", "ab" * 16, EPOCH, "p", "", 0, {}, "key")


BOTH = [1, 2]


def row(number: int, content: Any = None, **fields: Any) -> Row:
    told = {"key": "", "sent_ms": 0, "serializer": "pickle", "body": pickle.dumps(content)}
    return Row(number=number, **{**told, **fields})


def notify(first: int, *rows: Row, to: list[int] = BOTH, **fields: Any) -> Notify:
    return Notify(first, [Run("t", to, list(rows))] if rows else [], **fields)


class Bench:
    """An intake with two subscriptions to topic ``t``."""

    def __init__(
        self, executor: Executor, protocol: Protocol | None = None, callback: Callback | None = None
    ) -> None:
        self.counters = Counters()
        self.news: list[Any] = []
        self.roster = Roster()
        self.intake = Intake(
            protocol or Protocol("a long secret of k"),
            PEER,
            self.counters,
            lambda *told: self.news.append(told),
            lambda _: None,
            self.roster,
        )
        self.subscriptions = [
            Subscription(PEER.agent_id, "t", callback, drop(), None, executor, lambda _: None)
            for _ in range(2)
        ]
        for number, subscription in enumerate(self.subscriptions, 1):
            self.roster.add(share := LinkShare(subscription, number))
            share.begin(EPOCH, {})

    def take(self, told: Notify, key_id: str = "key", fd: int = -1) -> None:
        call, errands = self.intake.take(Received(told, key_id, fd))
        if call is not None:
            call()
        for errand in errands:
            errand()()

    def done(self) -> tuple[int, int, list[int]] | None:
        return self.intake.arrivals.report(always=False)


@pytest.fixture
def bench(executor: Executor) -> Iterator[Bench]:
    made = Bench(executor)
    yield made
    made.intake.close()


def test_every_subscription_gets_every_notification(bench: Bench) -> None:
    bench.take(notify(1, row(1, "a"), row(2, "b")))
    for subscription in bench.subscriptions:
        assert [subscription.recv(0).content for _ in range(2)] == ["a", "b"]
    assert bench.done() == (2, 2, [])


def test_what_came_before_is_not_delivered_again(bench: Bench) -> None:
    bench.take(notify(1, row(1, "a")))
    bench.take(notify(1, row(1, "a"), row(2, "b")))
    assert [bench.subscriptions[0].recv(0).content for _ in range(2)] == ["a", "b"]
    with pytest.raises(ReceiveTimeout):
        bench.subscriptions[0].recv(0)


def test_a_hole_is_an_error_of_the_publisher(bench: Bench) -> None:
    bench.take(notify(1, row(1)))
    with pytest.raises(RemoteProtocolError):
        bench.take(notify(3, row(3)))


def test_what_the_publisher_dropped_is_a_gap(bench: Bench) -> None:
    losses = [Loss(each, "t", 4, 3) for each in BOTH]
    bench.take(notify(1, row(1)))
    bench.take(notify(2, row(5), losses=losses))
    bench.take(notify(3, losses=[*losses, *(Loss(each, "t", 8, 6) for each in BOTH)]))
    for subscription in bench.subscriptions:
        assert subscription.gaps == [Gap(EPOCH, 2, 4), Gap(EPOCH, 6, 8)]
        assert (subscription.pending, subscription.dropped) == (2, 6)


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_content_that_cannot_be_decoded_is_counted_and_a_gap(bench: Bench, size: int) -> None:
    bench.take(notify(1, row(1, body=b"\x80" * size), row(2, "after")))
    for subscription in bench.subscriptions:
        assert subscription.recv(0).content == "after"
        assert subscription.gaps == [Gap(EPOCH, 1, 1)]
        assert (subscription.received, subscription.dropped) == (1, 1)
    assert bench.counters["refused_DecodeError"] == 1
    assert bench.done() == (2, 2, [])


class Harmful:
    def __init__(self, path: str, size: int) -> None:
        self.path, self.size = path, size

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,), {"filler": b"x" * self.size}


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_pickle_that_nobody_signed_runs_nobodys_code(executor: Executor, tmp_path: Any, size: int) -> None:
    bench, target = Bench(executor, Protocol("")), tmp_path / "made"
    bench.take(notify(1, row(1, Harmful(str(target), size))), key_id="")
    with pytest.raises(ReceiveTimeout):
        bench.subscriptions[0].recv(0)
    assert bench.subscriptions[0].dropped == 1
    assert not target.exists()


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("name", ["pickle", "link", "nonsense"])
def test_a_serializer_that_is_not_accepted_decodes_nothing(executor: Executor, name: str, size: int) -> None:
    bench = Bench(executor, Protocol("a long secret of k", accept_serializers=["json"]))
    bench.take(notify(1, row(1, "x" * size, serializer=name)))
    with pytest.raises(ReceiveTimeout):
        bench.subscriptions[0].recv(0)
    assert bench.subscriptions[0].gaps == [Gap(EPOCH, 1, 1)]
    assert bench.counters["refused_SerializerRefused"] == 1


def lent(bench: Bench, number: int, content: bytes) -> Block:
    data = pickle.dumps(content)
    block = Block.create(len(data))
    block.buffer[: len(data)] = data
    told = row(number, body=b"", block=9, size=len(data))
    bench.take(notify(number, told, lent=9), fd=os.dup(block.fd))
    return block


def test_a_content_in_a_block_is_read_from_there(bench: Bench) -> None:
    block = lent(bench, 1, b"x" * 100_000)
    for subscription in bench.subscriptions:
        assert subscription.recv(0).content == b"x" * 100_000
    assert bench.done() == (1, 1, [])
    block.close()


def test_a_block_that_was_never_lent_is_a_gap(bench: Bench) -> None:
    bench.take(notify(1, row(1, body=b"", block=5, size=100), row(2, "after")))
    assert bench.subscriptions[0].recv(0).content == "after"
    assert bench.subscriptions[0].gaps == [Gap(EPOCH, 1, 1)]
    assert bench.subscriptions[1].recv(0).content == "after"
    assert bench.done() == (2, 2, [])


def test_a_block_that_was_never_lent_leaves_nothing_to_the_collector(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It would keep what else came with the bundle, and with it the memory of its publisher."""
    caplog.set_level(logging.CRITICAL, "pzc")  # whoever keeps a log record keeps the frames

    def take() -> weakref.ref[threading.Event]:
        beside = threading.Event()
        bench.take(notify(1, row(1, block=9, size=100, body=b"")))
        return weakref.ref(beside)

    gc.collect()
    gc.disable()
    try:
        assert take()() is None
    finally:
        gc.enable()


def test_a_descriptor_of_no_block_is_counted_and_its_contents_are_lost(bench: Bench, tmp_path: Any) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    bench.take(notify(1, row(1, body=b"", block=5, size=100), lent=5), fd=fd)
    assert bench.counters["blocks_refused"] == 1
    assert bench.subscriptions[0].gaps == [Gap(EPOCH, 1, 1)]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_an_interest_that_was_given_up_is_done_at_once(bench: Bench) -> None:
    bench.take(notify(1, row(1), to=[3]))
    assert bench.done() == (1, 1, [])


def test_each_interest_gets_its_own(bench: Bench) -> None:
    bench.take(notify(1, row(1, "a"), to=[1], losses=[Loss(2, "t", 1, 1)]))
    first, second = bench.subscriptions
    assert (first.pending, first.dropped, second.pending, second.dropped) == (1, 0, 0, 1)


def test_an_interest_that_has_ended_ends_its_subscription(bench: Bench) -> None:
    bench.take(notify(1, row(1, "a"), ended=[Ended(1, "too slow")]))
    assert [each.closed for each in bench.subscriptions] == [True, False]


def test_what_comes_before_the_confirmation_is_delivered_with_it(bench: Bench, executor: Executor) -> None:
    late = Subscription(PEER.agent_id, "t", None, drop(), None, executor, lambda _: None)
    share = LinkShare(late, 3)
    bench.roster.add(share)
    bench.take(notify(1, row(3, 3), row(4, 4), to=[3], losses=[Loss(3, "t", 5, 1)]))
    assert late.gaps == []
    share.begin(EPOCH, {"t": 2})
    bench.take(notify(3, row(8, 8), to=[3], losses=[Loss(3, "t", 7, 3)]))
    assert [late.recv(0).content for _ in range(3)] == [3, 4, 8]
    assert (late.gaps, late.dropped) == ([Gap(EPOCH, 5, 5), Gap(EPOCH, 6, 7)], 3)


def test_a_link_that_was_closed_there_misses_what_was_published_meanwhile(bench: Bench) -> None:
    bench.take(notify(1, row(1), row(2), losses=[Loss(1, "t", 4, 2)]))
    share, subscription = next(iter(bench.roster)), bench.subscriptions[0]
    share.forget()
    share.begin(EPOCH, {"t": 10})
    assert (subscription.pending, subscription.dropped) == (2, 8)


def test_a_restart_is_one_gap_once_the_new_publisher_has_confirmed(bench: Bench) -> None:
    share, subscription = next(iter(bench.roster)), bench.subscriptions[0]
    share.restart("cd" * 16)
    share.restart("ef" * 16)
    assert subscription.gaps == []
    share.begin(8, {"t": 0})
    assert subscription.gaps == [Gap(8, 0, 0, restarted=True)]
    assert subscription.publisher == "ef" * 16


def test_the_notification_tells_where_it_comes_from(bench: Bench) -> None:
    bench.take(notify(1, row(3, "c", sent_ms=2500, key="k")))
    found = bench.subscriptions[0].recv(0)
    assert isinstance(found, Notification)
    assert (found.publisher, found.name, found.topic, found.key) == (PEER.agent_id, "p", "t", "k")
    assert (found.sequence, found.epoch, found.sent_at, found.key_id) == (3, EPOCH, 2.5, "key")


def test_every_inbox_has_a_message_before_any_callback_begins(executor: Executor) -> None:
    pending = list[list[int]]()
    note = lambda _: pending.append([each.pending for each in bench.subscriptions])  # noqa: E731
    bench = Bench(executor, callback=note)
    try:
        for subscription in bench.subscriptions:
            subscription.proofs = QUICK_PROOFS
        runs = [Run("t", BOTH, [row(1, "a")]), Run("u", [], [row(2, "b")]), Run("t", BOTH, [row(3, "c")])]
        bench.take(Notify(1, runs))
        assert pending == [[1, 2], [0, 2], [0, 1], [0, 0]]
    finally:
        bench.intake.close()


def test_what_one_subscription_cannot_take_the_others_get(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise RuntimeError("not this one")

    monkeypatch.setattr(bench.subscriptions[0], "admit", fail)
    bench.take(notify(1, row(1, "a")))
    assert bench.subscriptions[1].recv(0).content == "a"


def test_what_comes_for_the_same_interests_is_one_flow_whose_half_counts_all_of_it(bench: Bench) -> None:
    assert bench.roster.wanting(BOTH).flow is bench.roster.wanting(BOTH).flow
    before = bench.roster.wanting(BOTH).flow
    share = bench.roster.at(1)
    assert share is not None
    bench.roster.confirm(share, 4)
    assert bench.roster.wanting(BOTH).flow is not before
