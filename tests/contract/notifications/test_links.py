"""What links promise, between processes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from pzc import block, drop, latest

from tests.contract.acceptance import acceptance
from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.pairs import LONG, OUTSIDE, Publishing, pair, wait_until
from tests.contract.rigs.peers import QUICK, TIMEOUT
from tests.contract.rigs.processes import Workers
from tests.contract.rigs.workers import Counted

LARGE = 200_000
KIB64, MIB = 1 << 16, 1 << 20
BOUNDARIES = [KIB64, 2 * KIB64, 4 * KIB64, MIB - KIB64, MIB]
SIZES = [0, 1, *(size + by for size in BOUNDARIES for by in (-1, 0, 1)), MIB - 64, 64 * MIB]

over_a_wire = pytest.mark.parametrize("way", OUTSIDE)


def expected(sizes: list[int], first: int = 1) -> list[tuple[int, str]]:
    """Numbers and hashes of what `Worker.publish` publishes."""
    return [(number, digest(payload(number, size))) for number, size in enumerate(sizes, first)]


@over_a_wire
@pytest.mark.parametrize("size", [1, LARGE])
@acceptance("E1")
def test_a_process_that_never_reads_lets_as_many_return_as_there_are_buffers_then_as_many_as_it_reads(
    workers: Workers, way: str, size: int
) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        assert reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way) == way
        publishing = Publishing(publisher, "t", (payload(number, size) for number in range(1, 21)))
        reader.ask("pending", "t", 4)
        assert publishing.wait_for(4) == 4
        returned = 4
        for count in (1, 2, 3):
            reader.ask("take", "t", count)
            returned += count
            assert publishing.wait_for(returned) == returned
            reader.ask("pending", "t", 4)
        reader.ask("take", "t", 14)
        publishing.finish()
        assert reader.ask("account", "t", 20) == (20, 0, expected([size] * 20))


@pytest.mark.parametrize("leave", ["close", "kill"])
@over_a_wire
@acceptance("E2")
@pytest.mark.usefixtures("quick")
def test_of_two_processes_one_that_leaves_with_unread_ones_does_not_stop_the_other(
    workers: Workers, way: str, leave: str
) -> None:
    staying, leaving = workers.start(), workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        staying.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way, "hash")
        leaving.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way)
        publishing = Publishing(publisher, "t", (payload(number, LARGE) for number in range(1, 1005)))
        leaving.ask("pending", "t", 4)
        if leave == "close":
            leaving.ask("close", "t")
        else:
            leaving.kill()
        assert staying.ask("account", "t", 1004) == (1004, 0, expected([LARGE] * 1004))
        publishing.finish()


@acceptance("E3")
def test_a_slice_that_is_kept_outlives_a_hundred_messages_and_the_publisher(workers: Workers) -> None:
    reader = workers.start(timings=QUICK)
    publisher, endpoint = workers.publisher()
    publisher.ask("advertise", "t", buffers=4)
    reader.ask("subscribe", "kept", endpoint, "kept", LONG, "unix", "keep")
    reader.ask("subscribe", "t", endpoint, "t", LONG, "unix", "hash")
    publisher.ask("publish", "kept", [LARGE] * 3)
    publisher.ask("publish", "t", [LARGE] * 100)
    reader.ask("account", "t", 100)
    whole = [digest(payload(number, LARGE)[1:]) for number in (1, 2, 3)]
    assert reader.ask("hashes_of_kept", "kept") == whole
    publisher.kill()
    reader.ask("wait_for", "t", "lost")
    assert reader.ask("hashes_of_kept", "kept") == whole


@over_a_wire
@acceptance("E4")
def test_five_subscriptions_of_a_process_unpickle_once(workers: Workers, way: str) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        for name in "abcde":
            reader.ask("subscribe", name, publisher.rep_endpoint, "t", LONG, way, "collect")
        for number in range(100):
            publisher.publish("t", Counted(LARGE if number % 10 == 0 else 10))
        for name in "abcde":
            received, dropped, found = reader.ask("account", name, 100)
            assert (received, dropped) == (100, 0)
            assert [number for number, _ in found] == list(range(1, 101))
        assert reader.ask("unpickled") == 100


@pytest.mark.parametrize("policy", [drop(3), latest(3)])
@pytest.mark.parametrize("size", [1000, LARGE])
@acceptance("C1")
def test_what_a_slow_lossy_process_gets_is_whole_and_the_rest_is_counted(
    workers: Workers, policy: Any, size: int
) -> None:
    reader = workers.start()
    publisher, endpoint = workers.publisher()
    reader.ask("subscribe", "t", endpoint, "t", policy, "unix", "slow", seconds=0.02)
    publisher.ask("publish", "t", [size] * 1000)
    received, dropped, found = reader.ask("account", "t", 1000)
    assert received + dropped == 1000
    assert len(found) == received
    assert set(found) <= set(expected([size] * 1000))
    assert [number for number, _ in found] == sorted({number for number, _ in found})


@acceptance("C2")
def test_ack_wait_lasts_as_long_as_the_callback(workers: Workers) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix", "slow", seconds=0.1)
        begin = time.monotonic()
        publisher.publish("t", payload(1, LARGE), ack_wait=TIMEOUT)
        assert time.monotonic() - begin >= 0.099
        assert publisher.counters["ack_waits_missed"] == 0


@acceptance("C2")
def test_a_process_that_missed_its_ack_wait_is_not_waited_for_until_it_acknowledges(
    workers: Workers,
) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix")
        begin = time.monotonic()
        publisher.publish("t", payload(1, LARGE), ack_wait=0.2)
        assert time.monotonic() - begin >= 0.199
        publisher.publish("t", payload(2, LARGE), ack_wait=10 * TIMEOUT)
        assert publisher.counters["ack_waits_missed"] == 1
        reader.ask("take", "t", 2)
        wait_until(lambda: not publisher.statistics()["links"]["links"][0]["unacknowledged"])
        publisher.publish("t", payload(3, LARGE), ack_wait=0.01)
        assert publisher.counters["ack_waits_missed"] == 2


@acceptance("C2")
def test_two_processes_cost_one_wait(workers: Workers) -> None:
    with pair() as (publisher, _):
        for reader in (workers.start(), workers.start()):
            reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix")
        begin = time.monotonic()
        publisher.publish("t", payload(1, LARGE), ack_wait=1.5)
        assert 1.499 <= time.monotonic() - begin < 3.0
        assert publisher.counters["ack_waits_missed"] == 2


@acceptance("C3")
def test_with_one_buffer_a_publication_waits_for_the_callback_of_the_one_before(workers: Workers) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=1)
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix", "slow", seconds=0.05)
        begin = time.monotonic()
        for number in (1, 2, 3):
            with publisher.loan("t", (LARGE,), "u1") as array:
                array[:] = payload(number, LARGE)
        assert time.monotonic() - begin >= 0.099
        assert reader.ask("account", "t", 3)[2] == expected([LARGE] * 3)


@acceptance("C3")
def test_with_three_buffers_three_publications_wait_for_nobody(workers: Workers) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=3)
        policy = block(timeout=0.0)
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", policy, "unix")
        for number in (1, 2, 3):
            with publisher.loan("t", (LARGE,), "u1") as array:
                array[:] = payload(number, LARGE)
        assert reader.ask("take", "t", 3) == expected([LARGE] * 3)


@pytest.mark.parametrize("topics", [["a"] * 8, ["a", "b", "c", "d"] * 2], ids=["one topic", "four topics"])
def test_eight_threads_give_numbers_without_holes_and_every_reader_sees_that_order(
    workers: Workers, topics: list[str]
) -> None:
    each = 150
    publisher, endpoint = workers.publisher()
    readers = {way: workers.start() for way in ("unix", "tcp", "broadcast")}
    for way, reader in readers.items():
        for topic in set(topics):
            wish = (drop(10_000), "auto") if way == "broadcast" else (LONG, way)
            reader.ask("subscribe", topic, endpoint, topic, *wish, "collect")
    numbers = publisher.ask("publish_at_once", topics, each)
    for topic, given in numbers.items():
        given.sort()
        assert [number for number, _ in given] == list(range(1, topics.count(topic) * each + 1))
        for reader in readers.values():
            assert reader.ask("account", topic, len(given)) == (len(given), 0, given)


@over_a_wire
@pytest.mark.parametrize("kind", [bytes, np.asarray])
def test_contents_of_all_sizes_arrive_whole(workers: Workers, way: str, kind: Any) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way, "hash")
        for number, size in enumerate(SIZES, 1):
            publisher.publish("t", kind(payload(number, size)))
        assert reader.ask("account", "t", len(SIZES)) == (len(SIZES), 0, expected(SIZES))


@pytest.mark.needs("memfd", "unix")
def test_a_publisher_that_gets_no_memory_sends_everything_all_the_same(workers: Workers) -> None:
    publisher, endpoint = workers.publisher()
    readers = {way: workers.start() for way in OUTSIDE}
    for way, reader in readers.items():
        reader.ask("subscribe", "t", endpoint, "t", LONG, way, "hash")
    before = KIB64 + 1  # a block that is too small later
    publisher.ask("publish", "t", [before])
    for reader in readers.values():
        reader.ask("account", "t", 1)
    publisher.ask("refuse_blocks")
    publisher.ask("publish", "t", [3 * LARGE] * 50, 2)
    for reader in readers.values():
        assert reader.ask("account", "t", 51) == (51, 0, expected([before, *[3 * LARGE] * 50]))
    told = publisher.ask("statistics")
    assert told["counts"]["shm_refused"] == 50
    assert told["ring"]["used"] == 0


def test_a_thread_that_waits_for_a_reader_does_not_hold_up_another_topic(workers: Workers) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        reader.ask("subscribe", "full", publisher.rep_endpoint, "full", block(TIMEOUT, slots=1), "unix")
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix", "hash")
        waiting = Publishing(publisher, "full", (payload(number, LARGE) for number in (1, 2)))
        assert waiting.wait_for(1) == 1
        for number in range(1, 101):
            publisher.publish("t", payload(number, LARGE))
        reader.ask("account", "t", 100)
        assert waiting.returned == 1
        reader.ask("take", "full", 2)
        waiting.finish()
