"""Notifications from end to end: real sockets, and real processes where one is named."""

from __future__ import annotations

import queue
import random
from collections.abc import Callable

import pytest

from pzc import Agent, Gap, Protocol, drop, latest

from tests.contract.rigs.children import Child
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    Elsewhere,
    Forwarder,
    Frames,
    Inbox,
    balance,
)


def test_a_man_in_the_middle_who_drops_every_seventh_is_counted() -> None:
    count = 1_000
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    with Elsewhere(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        with Forwarder(publisher.pub_endpoint, lambda n, frames: [frames] if n % 7 else []) as forwarder:
            publisher.advertised = forwarder.endpoint
            got = Inbox()
            subscription = reader.subscribe(publisher.rep_endpoint, "t", got, policy=drop(count))
            subscription.on_gap = gaps.put
            for number in range(1, count + 1):
                publisher.publish("t", number)
            assert got.until(count) == [n for n in range(1, count) if n % 7]
            assert [gaps.get(timeout=TIMEOUT).first for _ in range(count // 7)] == list(range(7, count, 7))
            subscription.close()
        assert (subscription.received, subscription.dropped) == (count - count // 7, count // 7)
        assert [(gap.first, gap.last) for gap in subscription.gaps] == [(n, n) for n in range(7, count, 7)]
        assert reader.counters["notifications_lost"] == count // 7


@pytest.mark.parametrize("key", ["", KEY])
def test_what_a_man_in_the_middle_repeats_is_delivered_once(key: str) -> None:
    recorded: list[Frames] = []

    def repeat(number: int, frames: Frames) -> list[Frames]:
        recorded.append(frames)
        return [frames, frames, *([recorded[number // 2]] if number % 3 == 0 else [])]

    with Elsewhere(protocol=Protocol(key)) as publisher, Agent(protocol=Protocol(key)) as reader:
        with Forwarder(publisher.pub_endpoint, repeat) as forwarder:
            publisher.advertised = forwarder.endpoint
            got = Inbox()
            subscription = reader.subscribe(publisher.rep_endpoint, "*", got, policy=drop(1_000))
            for number in range(300):
                publisher.publish(f"t{number % 4}", number)
            publisher.publish("t0", "end")
            assert got.until("end") == list(range(300))
            subscription.close()
        assert (subscription.received, subscription.dropped, subscription.gaps) == (301, 0, [])
        name = "refused_ReplayedMessage" if key else "notifications_repeated"
        assert reader.counters[name] >= 400


def test_what_a_man_in_the_middle_alters_is_a_counted_loss() -> None:
    def alter(number: int, frames: Frames) -> list[Frames]:
        if number % 5 == 0:
            return [[*frames[:2], frames[2][:-1] + bytes((frames[2][-1] ^ 1,)), *frames[3:]]]
        return [frames]

    with Elsewhere(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        with Forwarder(publisher.pub_endpoint, alter) as forwarder:
            publisher.advertised = forwarder.endpoint
            got = Inbox()
            subscription = reader.subscribe(publisher.rep_endpoint, "t", got)
            for number in range(1, 102):
                publisher.publish("t", number)
            assert got.until(101) == [n for n in range(1, 101) if n % 5]
            subscription.close()
        assert (subscription.received, subscription.dropped) == (81, 20)
        assert reader.counters["refused_SignatureError"] == 20


def test_a_reader_that_falls_behind_the_socket_accounts_for_everything(pair: tuple[Agent, Agent]) -> None:
    publisher, reader = pair
    count = 5_000
    subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=latest(3))
    for number in range(1, count + 1):
        publisher.publish("t", number)
    while subscription.recv(TIMEOUT).content != count:
        pass
    assert subscription.received + subscription.dropped == count
    assert subscription.pending == 0


@pytest.mark.usefixtures("quick")
def test_a_publisher_that_is_killed_and_restarted_is_one_gap_and_delivery_resumes() -> None:
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    lost: list[str] = []
    with Agent(protocol=Protocol(KEY)) as reader:
        got = Inbox()
        with Child() as first:
            rep, pub = first.rep, first.pub
            subscription = reader.subscribe(rep, "t", got)
            subscription.on_gap, subscription.on_lost = gaps.put, lost.append
            reader.request(rep, ["t", 10], TIMEOUT)
            before = got.take(10)
        for _ in range(2):
            with Child(rep, pub):
                assert gaps.get(timeout=TIMEOUT).restarted
                reader.request(rep, ["t", 10], TIMEOUT)
                after = got.take(10)
                assert [n.content for n in after] == list(range(10))
                assert [n.sequence for n in after] == list(range(1, 11))
                assert after[0].epoch != before[0].epoch
                before = after
        assert len(subscription.gaps) == 2
        assert gaps.empty()
        assert (subscription.received, subscription.dropped) == (30, 0)


def test_policies_account_for_everything_between_processes() -> None:
    with Child() as child, Agent(protocol=Protocol(KEY)) as reader:
        subscriptions = [
            reader.subscribe(child.rep, topic, policy=policy)
            for topic in ("t", "*")
            for policy in (drop(10), drop(1), latest(1), latest(10), drop(5_000))
        ]
        end = reader.subscribe(child.rep, "end")
        reader.request(child.rep, ["t", 2_000], TIMEOUT)
        reader.request(child.rep, ["end", 1], TIMEOUT)
        end.recv(TIMEOUT)
        for subscription in subscriptions:  # each gets its own in its own time
            expected = 2_000 + (subscription.topic == "*")
            wait_until(lambda each=subscription, expected=expected: balance(each) >= expected)
            assert balance(subscription) == expected
        kept = [
            [subscription.recv(0).content for _ in range(subscription.pending)]
            for subscription in subscriptions
        ]
        assert kept[:4] == [list(range(10)), [0], [1_999], list(range(1_990, 2_000))]
        assert kept[4] == list(range(2_000))
        assert kept[5:] == [list(range(10)), [0], [0], [*range(1_991, 2_000), 0], [*range(2_000), 0]]


@pytest.mark.slow
def test_a_publisher_that_stays_away_is_lost_once_and_heard_again_when_it_returns(
    monkeypatch: pytest.MonkeyPatch,
    timings: Callable[..., None],
) -> None:
    timings(silence=0.05)
    timings(publisher_retry=0.05)
    lost: queue.SimpleQueue[str] = queue.SimpleQueue()
    gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    with Agent(protocol=Protocol(KEY)) as reader:
        got = Inbox()
        with Child() as first:
            rep, pub = first.rep, first.pub
            subscription = reader.subscribe(rep, "t", got)
            subscription.on_gap, subscription.on_lost = gaps.put, lost.put
        assert rep in lost.get(timeout=TIMEOUT)
        with Child(rep, pub):
            assert gaps.get(timeout=TIMEOUT).restarted
            reader.request(rep, ["t", 3], TIMEOUT)
            assert got.contents(3) == [0, 1, 2]
        monkeypatch.undo()
        assert lost.empty()
        assert len(subscription.gaps) == 1


@pytest.mark.usefixtures("beside_originals")
def test_a_replayed_notification_of_the_original_dialect_is_refused_too() -> None:
    original = Protocol(KEY, dialect="PZC00", accept=["PZC00"])
    with (
        Elsewhere(protocol=original) as publisher,
        Agent(protocol=Protocol(KEY)) as reader,
        Forwarder(publisher.pub_endpoint, lambda _, frames: [frames] * 3) as forwarder,
    ):
        publisher.advertised = forwarder.endpoint
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
        for number in range(20):
            publisher.publish("t", number)
        publisher.publish("t", "end")
        assert [subscription.recv(TIMEOUT).content for _ in range(21)] == [*range(20), "end"]
        assert reader.counters["refused_ReplayedMessage"] >= 40
        subscription.close()


def test_junk_and_what_has_no_signature_are_refused_and_the_next_notification_arrives() -> None:
    unsigned, random_ = Protocol(""), random.Random(4711)

    def forge(frames: Frames) -> Frames:
        _, sender, topic, sequence, _ = frames[0].decode().split("+")
        return [bytes(each) for each in unsigned.encode(sender, topic, "forged", sequence=int(sequence))]

    def junk(_: int, frames: Frames) -> list[Frames]:
        prefix = frames[0][: frames[0].rindex(b"+t+") + 3]
        return [
            forge(frames),
            [prefix + random_.randbytes(50)],
            [prefix, *(random_.randbytes(100) for _ in range(9))],
            [prefix + b"9" * 3_000, *frames[1:]],
            [frames[0] + b"\xff\xfe", *frames[1:]],
            [*frames[:4], b""],
            *([*frames[:at], random_.randbytes(len(frames[at])), *frames[at + 1 :]] for at in range(1, 5)),
            frames,
        ]

    with Elsewhere(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        with Forwarder(publisher.pub_endpoint, junk) as forwarder:
            publisher.advertised = forwarder.endpoint
            subscription = reader.subscribe(publisher.rep_endpoint, "t")
            for number in range(50):
                publisher.publish("t", number)
            assert [subscription.recv(TIMEOUT).content for _ in range(50)] == list(range(50))
            assert (subscription.gaps, balance(subscription)) == ([], 50)
            assert reader.counters["notifications_refused"] == 500
            assert reader.request(publisher.rep_endpoint, "ping") == "pong"
