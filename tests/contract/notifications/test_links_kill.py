"""Links whose processes are killed, frozen and restarted, and readers that leave or fail."""

from __future__ import annotations

import logging
import os
import queue
import random
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from pzc import Agent, Gap, Protocol, Subscription, block, latest

from tests.contract.acceptance import acceptance
from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.evidence import digest, memory_of, memory_of_all, payload
from tests.contract.rigs.pairs import LONG, OUTSIDE, Publishing, pair, read, wait_until
from tests.contract.rigs.peers import KEY, QUICK, TIMEOUT
from tests.contract.rigs.processes import Hand, Workers

logger = logging.getLogger("tests.faults")

LARGE = 200_000

over_a_wire = pytest.mark.parametrize("way", OUTSIDE)


def expected(size: int, numbers: range) -> list[tuple[int, str]]:
    """Numbers and hashes of payloads."""
    return [(number, digest(payload(number, size))) for number in numbers]


def ring(publisher: Agent) -> dict[str, int]:
    return publisher.statistics()["links"]["ring"]


def links(publisher: Hand) -> set[str]:
    """Those whose readers are there."""
    return {each["link"] for each in publisher.ask("statistics")["links"] if each["state"] == "alive"}


def outstanding(publisher: Agent) -> int:
    """Messages that some reader is not done with."""
    return sum(each["unacknowledged"] + each["waiting"] for each in publisher.statistics()["links"]["links"])


# --- readers ---------------------------------------------------------------------------------------------


@pytest.mark.needs("memfd", "pidfd", "unix")
@pytest.mark.usefixtures("quick")
def test_nothing_is_left_of_a_reader_that_was_killed_with_leases_and_unread_messages(
    workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pzc.links")
    reader = workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=8)
        publisher.advertise("kept", buffers=3)
        reader.ask("subscribe", "kept", publisher.rep_endpoint, "kept", LONG, "unix", "keep")
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix")
        for number in (1, 2, 3):
            publisher.publish("kept", payload(number, LARGE))
        publishing = Publishing(publisher, "t", (payload(number, LARGE) for number in range(1, 101)))
        reader.ask("wait_for", "kept", "found", 3)
        reader.ask("pending", "t", 8)
        assert publishing.wait_for(8) == 8
        assert ring(publisher)["used"] >= 11
        reader.kill()
        publishing.finish()
        wait_until(lambda: not publisher.statistics()["links"]["links"])
        wait_until(lambda: "its process has ended" in caplog.text)  # nobody waited for its silence
        wait_until(lambda: ring(publisher)["used"] == 0)
        assert ring(publisher)["retired"] >= 11
        assert len(memory_of(os.getpid())) == ring(publisher)["blocks"]


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_publisher_goes_on_without_frozen_readers_which_count_what_they_missed(workers: Workers) -> None:
    frozen = {way: workers.start() for way in OUTSIDE}
    well = workers.start(timings=QUICK)  # it says that it lives as often as the publisher listens
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        for way, reader in frozen.items():
            reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way, "hash")
        well.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix", "hash")
        for number in range(1, 11):
            publisher.publish("t", payload(number, LARGE))
        for reader in frozen.values():
            reader.ask("account", "t", 10)
            reader.freeze()
        publishing = Publishing(publisher, "t", (payload(number, LARGE) for number in range(11, 101)))
        publishing.finish()
        assert well.ask("account", "t", 100) == (100, 0, expected(LARGE, range(1, 101)))
        for reader in frozen.values():
            reader.thaw()
        assert publisher.wait_for_subscribers("t", 3, TIMEOUT)
        publisher.publish("t", payload(101, LARGE))
        whole = set(expected(LARGE, range(1, 102)))
        for reader in frozen.values():
            received, dropped, found = reader.ask("account", "t", 101)
            assert received + dropped == 101
            assert dropped > 0
            assert found[-1][0] == 101
            assert set(found) <= whole
            gaps = reader.ask("wait_for", "t", "gaps")
            assert (sum(lost for lost, _ in gaps), {restart for _, restart in gaps}) == (dropped, {False})


@over_a_wire
def test_a_subscription_that_is_closed_with_unread_messages_gives_everything_back(
    workers: Workers, way: str
) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        reader.ask("subscribe", "other", publisher.rep_endpoint, "other", LONG, way)  # keeps the link
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way)
        publishing = Publishing(publisher, "t", (payload(number, LARGE) for number in range(1, 51)))
        reader.ask("pending", "t", 4)
        reader.ask("close", "t")
        publishing.finish()
        wait_until(lambda: not outstanding(publisher))
        assert ring(publisher)["used"] == 0


@over_a_wire
def test_a_subscription_that_is_closed_in_its_callback_gives_everything_back(
    workers: Workers, way: str
) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        reader.ask("subscribe", "other", publisher.rep_endpoint, "other", LONG, way, "hash")
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way, "leave")
        publishing = Publishing(publisher, "t", (payload(number, LARGE) for number in range(1, 51)))
        publishing.finish()
        assert reader.ask("wait_for", "t", "found", 3) == expected(LARGE, range(1, 4))
        publisher.publish("other", payload(1, LARGE))
        assert reader.ask("account", "other", 1)[:2] == (1, 0)
        wait_until(lambda: not outstanding(publisher))
        wait_until(lambda: ring(publisher)["used"] == 0)


@over_a_wire
def test_a_callback_that_always_raises_gives_everything_back(workers: Workers, way: str) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way, "fail")
        Publishing(publisher, "t", (payload(number, LARGE) for number in range(1, 51))).finish()
        assert reader.ask("account", "t", 50) == (50, 0, expected(LARGE, range(1, 51)))
        reader.ask("wait_for_errors", "t", 50)
        wait_until(lambda: ring(publisher)["used"] == 0)


# --- any moment ------------------------------------------------------------------------------------------

MOMENTS = int(os.environ.get("LINK_MOMENTS", "200"))
SEED = 20_240_501
PER_READER = 0.03


def end(reader: Hand, dice: random.Random) -> None:
    """Kill a reader, perhaps after it stood still for a moment."""
    pause = threading.Event().wait
    pause(dice.uniform(0, PER_READER))
    if dice.random() < 0.3:
        reader.freeze()
        pause(dice.uniform(0, PER_READER))
        if dice.random() < 0.5:
            reader.thaw()
    reader.kill()


@pytest.mark.timeout(max(120, 2 * MOMENTS))
@pytest.mark.slow
def test_whenever_a_reader_dies_in_a_zero_copy_callback_the_publisher_goes_on_and_the_others_see_no_change(
    workers: Workers, tmp_path: Path
) -> None:
    logger.info("seed %s", SEED)
    dice = random.Random(SEED)
    notes = tmp_path / "damaged"
    staying = workers.start()
    options = {"size": LARGE, "notes": str(notes)}
    stop = threading.Event()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        staying.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix", "verify", **options)

        def contents() -> Iterator[object]:
            for number in count(1):
                if stop.is_set():
                    return
                yield payload(number, LARGE)

        publishing = Publishing(publisher, "t", contents())
        try:
            for number in range(MOMENTS):
                reader = workers.start()
                policy = latest(3) if number % 3 == 0 else block(TIMEOUT, slots=dice.randint(1, 4))
                how = dice.choice(["verify", "keep"]) if policy.name == "latest" else "verify"
                reader.start("subscribe", "t", publisher.rep_endpoint, "t", policy, "unix", how, **options)
                if dice.random() < 0.8:
                    reader.finish()
                end(reader, dice)
                returned = publishing.returned
                assert publishing.wait_for(returned + 5) >= returned + 5, f"moment {number}"
        finally:
            stop.set()
            publishing.join(TIMEOUT)
        publishing.finish()
        total = publishing.returned
        received, dropped, found = staying.ask("account", "t", total)
        assert (received, dropped) == (total, 0)
        assert [number for number, _ in found] == list(range(1, total + 1))
        wait_until(lambda: len(publisher.statistics()["links"]["links"]) == 1)
        wait_until(lambda: ring(publisher)["used"] == 0)
        assert len(memory_of(os.getpid())) == ring(publisher)["blocks"]
    assert notes.read_bytes() == b""


def test_a_reader_in_this_process_goes_on_while_one_in_another_is_killed(workers: Workers) -> None:
    other = workers.start()
    with pair() as (publisher, reader):
        publisher.advertise("t", buffers=4)
        mine = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG)
        other.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix")
        publishing = Publishing(publisher, "t", (payload(number, LARGE) for number in range(1, 101)))
        other.ask("pending", "t", 4)
        other.kill()
        assert [digest(content) for content in read(mine, 100)] == [
            digest(payload(number, LARGE)) for number in range(1, 101)
        ]
        publishing.finish()


@pytest.mark.slow
def test_a_publisher_that_was_frozen_and_one_that_was_killed_are_told_once_and_met_again(
    workers: Workers,
) -> None:
    endpoints = free_endpoint(), free_endpoint()
    reader = workers.start()
    publisher, endpoint = workers.publisher(*endpoints)
    for way in OUTSIDE:
        reader.ask("subscribe", way, endpoint, "t", LONG, way, "hash")
    publisher.ask("publish", "t", [LARGE] * 3)
    for way in OUTSIDE:
        reader.ask("account", way, 3)
    before = links(publisher)
    assert len(before) == len(OUTSIDE)
    publisher.freeze()
    for way in OUTSIDE:
        assert len(reader.ask("wait_for", way, "lost")) == 1
    publisher.thaw()
    wait_until(lambda: links(publisher) == before)
    publisher.ask("publish", "t", [LARGE] * 3, 4)
    for way in OUTSIDE:
        assert reader.ask("account", way, 6) == (6, 0, expected(LARGE, range(1, 7)))
    publisher.kill()
    again, _ = workers.publisher(*endpoints)
    for way in OUTSIDE:
        assert reader.ask("wait_for", way, "gaps")[0][1]
    again.ask("publish", "t", [LARGE] * 3)
    for way in OUTSIDE:
        received, dropped, found = reader.ask("account", way, 9)
        assert (received, dropped, found[-3:]) == (9, 0, expected(LARGE, range(1, 4)))
        assert len(reader.ask("wait_for", way, "gaps")) == 1
        assert len(reader.ask("wait_for", way, "lost")) == 1


@acceptance("C4")
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_of_publishers_that_are_killed_over_and_over_nothing_is_left_and_the_next_one_is_heard(
    workers: Workers,
) -> None:
    endpoints = free_endpoint(), free_endpoint()
    before = sorted(name for name in os.listdir("/dev/shm") if "pzc" in name)
    left: set[int] = set()
    restarts: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    with Agent(protocol=Protocol(KEY)) as reader:
        subscriptions: list[Subscription] = []
        for _ in range(100):
            publisher, endpoint = workers.publisher(*endpoints)
            for _ in subscriptions:
                assert restarts.get(timeout=TIMEOUT).restarted
            if not subscriptions:
                for policy in (LONG, latest(5)):
                    made = reader.subscribe(endpoint, "t", policy=policy, transport="unix")
                    made.on_gap = restarts.put
                    subscriptions.append(made)
            assert publisher.ask("publish", "t", [LARGE]) == 1
            for each in subscriptions:
                with each.recv_zero_copy(TIMEOUT) as notification:
                    assert digest(notification.content) == digest(payload(1, LARGE))
            found = memory_of(publisher.pid)
            assert found
            left |= found
            publisher.start("publish", "u", [LARGE])  # it may be killed at its work
            publisher.kill()
        for each in subscriptions:
            each.close()
        wait_until(lambda: not left & memory_of_all())
    assert sorted(name for name in os.listdir("/dev/shm") if "pzc" in name) == before


@pytest.mark.xfail(reason="a link whose socket cannot be had again goes on over TCP")
@pytest.mark.needs("unix")
def test_what_asked_for_the_unix_socket_does_not_go_on_over_tcp_after_a_restart(workers: Workers) -> None:
    endpoints = free_endpoint(), free_endpoint()
    publisher, endpoint = workers.publisher(*endpoints)
    with Agent(protocol=Protocol(KEY)) as reader:
        _kept = reader.subscribe(endpoint, "t", policy=latest(1), transport="unix")
        publisher.kill()
        without, _ = workers.publisher(*endpoints, timings={"connections": 0})
        assert not without.ask("wait_for_subscribers", "t", 1)
