from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from pzc import Notification, ReceiveTimeout, block, drop, latest

from tests.contract.acceptance import acceptance
from tests.contract.rigs.pairs import (
    LONG,
    OUTSIDE,
    SHORT,
    WAYS,
    Publishing,
    pair,
    publish_until_full,
    read,
    wait_until,
)
from tests.contract.rigs.peers import TIMEOUT, Inbox

every_way = pytest.mark.parametrize("way", WAYS)
over_a_wire = pytest.mark.parametrize("way", OUTSIDE)


@every_way
@pytest.mark.parametrize("slots", [1, 4, 32])
@acceptance("E1")
def test_a_reader_that_never_reads_lets_as_many_publications_return_as_it_has_slots(
    way: str, slots: int
) -> None:
    with pair() as (publisher, reader):
        reader.subscribe(publisher.rep_endpoint, "t", policy=block(timeout=0.3, slots=slots), transport=way)
        assert publish_until_full(publisher, "t") == slots


@every_way
@pytest.mark.parametrize("slots", [1, 4, 32])
@acceptance("E1")
def test_as_many_more_publications_return_as_were_read(way: str, slots: int) -> None:
    with pair() as (publisher, reader):
        policy = block(timeout=TIMEOUT, slots=slots)
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=way)
        publishing = Publishing(publisher, "t", range(slots + 3))
        assert publishing.wait_for(slots) == slots
        for count in range(1, 4):
            assert subscription.recv(TIMEOUT).content == count - 1
            assert publishing.wait_for(slots + count) == slots + count
        assert read(subscription, slots) == list(range(3, slots + 3))
        publishing.finish()


@every_way
@pytest.mark.parametrize("large", [False, True])
@acceptance("E2")
def test_of_two_readers_one_that_leaves_with_unread_ones_does_not_stop_the_other(
    way: str, large: bool
) -> None:
    with pair() as (publisher, reader):
        publisher.advertise("t", buffers=4)
        size = 20_000 if large else 1
        policy = block(timeout=TIMEOUT)
        staying = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=way)
        leaving = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=way)
        contents = (np.full(size, number) for number in range(1004))
        publishing = Publishing(publisher, "t", contents)
        assert publishing.wait_for(4) == 4
        found = [int(content[0]) for content in read(staying, 4)]
        leaving.close()
        found += [int(content[0]) for content in read(staying, 1000)]
        publishing.finish()
        assert found == list(range(1004))
        assert staying.dropped == 0


@every_way
@acceptance("E3")
def test_a_slice_that_is_kept_never_changes(way: str) -> None:
    with pair() as (publisher, reader):
        publisher.advertise("t", buffers=4)
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        publisher.publish("t", np.arange(100_000))
        with subscription.recv_zero_copy(TIMEOUT) as notification:
            kept = notification.content[50_000:60_000]
        publishing = Publishing(publisher, "t", (np.full(100_000, -number) for number in range(100)))
        for _ in range(100):
            subscription.recv(TIMEOUT)
        publishing.finish()
        assert np.array_equal(kept, np.arange(50_000, 60_000))


@pytest.mark.needs("memfd", "unix")
def test_kept_slices_keep_the_slots_of_the_publisher() -> None:
    with pair() as (publisher, reader):
        publisher.advertise("t", buffers=2)
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=SHORT, transport="unix")
        kept: list[Any] = []
        for number in range(2):
            publisher.publish("t", np.full(100_000, number))
            with subscription.recv_zero_copy(TIMEOUT) as notification:
                kept.append(notification.content[:10])
        assert publish_until_full(publisher, "t") == 0
        kept.pop()
        publishing = Publishing(publisher, "t", [1])
        publishing.finish()


def test_an_array_over_a_link_is_read_only() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publisher.publish("t", np.zeros(100_000))
        with (
            subscription.recv_zero_copy(TIMEOUT) as notification,
            pytest.raises(ValueError, match="read-only"),
        ):
            notification.content[0] = 1.0


def test_recv_gives_an_array_of_its_own() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publisher.publish("t", np.zeros(100_000))
        content = subscription.recv(TIMEOUT).content
        content[0] = 1.0
        assert content[0] == 1.0


class Counting:
    """Counts how often it is unpickled in this process."""

    count = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (b"x" * self.size,)

    def __init__(self, size: int) -> None:
        self.size = size


def _unpickled(filler: bytes) -> str:
    Counting.count += 1
    return "unpickled"


@over_a_wire
@pytest.mark.parametrize("size", [10, 200_000])
@acceptance("E4")
def test_a_content_is_unpickled_once_for_all_subscriptions(way: str, size: int) -> None:
    Counting.count = 0
    with pair() as (publisher, reader):
        inboxes = [Inbox() for _ in range(5)]
        for inbox in inboxes:
            reader.subscribe(publisher.rep_endpoint, "t", inbox, policy=LONG, transport=way)
        for _ in range(100):
            publisher.publish("t", Counting(size))
        found = [inbox.contents(100) for inbox in inboxes]
        assert found == [["unpickled"] * 100] * 5
        assert Counting.count == 100


def test_inside_a_process_every_subscription_gets_the_object_itself() -> None:
    with pair() as (publisher, reader):
        one = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG)
        other = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG)
        content = object()
        publisher.publish("t", content)
        with one.recv_zero_copy(TIMEOUT) as first, other.recv_zero_copy(TIMEOUT) as second:
            assert first.content is content
            assert second.content is content


@over_a_wire
def test_all_subscriptions_see_one_object(way: str) -> None:
    with pair() as (publisher, reader):
        one = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        other = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        publisher.publish("t", {"a": 1})
        with one.recv_zero_copy(TIMEOUT) as first, other.recv_zero_copy(TIMEOUT) as second:
            assert first.content is second.content


@every_way
@pytest.mark.parametrize("policy", [drop(5), latest(5)])
@acceptance("C1")
def test_of_a_lossy_subscription_everything_was_received_or_dropped(way: str, policy: Any) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=way)
        end = reader.subscribe(publisher.rep_endpoint, "end", policy=LONG, transport=way)
        for number in range(1000):
            publisher.publish("t", np.full(20_000, number))
        publisher.publish("end", None)
        end.recv(TIMEOUT)
        found: list[int] = []

        def all_told() -> bool:
            with suppress(ReceiveTimeout):
                content = subscription.recv(0).content
                assert (content == content[0]).all()
                found.append(int(content[0]))
            return subscription.received + subscription.dropped == 1000

        wait_until(all_told)
        assert found == sorted(set(found))
        assert subscription.received == len(found)


def test_a_slow_lossy_reader_gets_every_content_whole() -> None:
    with pair() as (publisher, reader):
        kept: list[tuple[bytes, str]] = []
        got = threading.Semaphore(0)

        def slow(notification: Notification) -> None:
            kept.append((notification.content["data"], notification.content["sha"]))
            threading.Event().wait(0.005)
            got.release()

        subscription = reader.subscribe(publisher.rep_endpoint, "t", slow, policy=latest(3), transport="unix")
        for number in range(1000):
            data = bytes([number % 256]) * 100_000
            publisher.publish("t", {"data": data, "sha": hashlib.sha256(data).hexdigest()})
        while subscription.received + subscription.dropped < 1000 or subscription.pending:
            assert got.acquire(timeout=TIMEOUT)
        wait_until(lambda: len(kept) == subscription.received)  # it counts what the callback begins with
        assert all(hashlib.sha256(data).hexdigest() == sha for data, sha in kept)
