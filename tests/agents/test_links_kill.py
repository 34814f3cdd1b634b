"""Links whose processes are killed, frozen and restarted, and readers that leave or fail."""

from __future__ import annotations

import os
import queue

import pytest

from pzc import Agent, Gap, Protocol, Subscription, latest

from tests.contract.rigs.evidence import digest, memory_of, memory_of_all, payload
from tests.contract.rigs.faults import free_endpoint
from tests.contract.rigs.pairs import LONG, OUTSIDE, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.processes import Hand, Workers

LARGE = 200_000


def expected(size: int, numbers: range) -> list[tuple[int, str]]:
    """Numbers and hashes of payloads."""
    return [(number, digest(payload(number, size))) for number in numbers]


def links(publisher: Hand) -> set[str]:
    return {each["link"] for each in publisher.ask("statistics")["links"]}


# --- publishers ------------------------------------------------------------------------------------------


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
    dead = links(publisher)
    assert dead
    publisher.freeze()
    for way in OUTSIDE:
        assert len(reader.ask("wait_for", way, "lost")) == 1
    publisher.thaw()
    wait_until(lambda: len(links(publisher) - dead) == len(dead))
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


@pytest.mark.timeout(120)
def test_of_publishers_that_are_killed_over_and_over_nothing_is_left_and_the_next_one_is_heard(
    workers: Workers,
) -> None:
    endpoints = free_endpoint(), free_endpoint()
    before = sorted(name for name in os.listdir("/dev/shm") if "pzc" in name)
    left: set[int] = set()
    restarts: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    with Agent(protocol=Protocol(KEY)) as reader:
        subscriptions: list[Subscription] = []
        for _ in range(20):
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
