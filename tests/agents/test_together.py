"""Readers of all kinds at once, each in a process: who is to get everything does, and nobody else matters."""

from __future__ import annotations

import pytest

from tests.agents.together import KINDS, MANY, MIXED, together
from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.processes import Forge, Hand, Workers

COMPLETE = ("block", "mailbox")
LOSSY = ("latest", "broadcast")
SECOND = " again"
"""A second subscription of each kind, in the same process as the first one."""


@pytest.fixture
def hands(forge: Forge, workers: Workers) -> dict[str, Hand]:
    """A publisher, in whose process the ``block`` reader is, and processes for the others."""
    made = {name: Hand(forge, make=together) for name in ("publisher", "latest", "mailbox", "broadcast")}
    for hand in made.values():
        workers.callback(hand.kill)
    return {**made, "block": made["publisher"]}


def subscribe(hands: dict[str, Hand], *kinds: str) -> None:
    """Two readers of each kind."""
    endpoint = hands["publisher"].ask("endpoints")[0]
    for kind in kinds:
        policy, transport, way = KINDS[kind]
        for name in (kind, kind + SECOND):
            assert hands[kind].ask("subscribe", name, endpoint, "t", policy, transport, "hash") == way


def expected(sizes: list[int], first: int = 1) -> list[tuple[int, str]]:
    return [(number, digest(payload(number, size))) for number, size in enumerate(sizes, first)]


def test_of_four_kinds_of_readers_two_get_everything_in_order_and_two_count_what_they_miss(
    hands: dict[str, Hand],
) -> None:
    publisher, whole = hands["publisher"], expected(MIXED)
    subscribe(hands, *KINDS)
    assert publisher.ask("publish_counted", MIXED) == MANY
    for kind in KINDS:
        numbers: set[int] = set()
        for name in (kind, kind + SECOND):
            received, dropped, found = hands[kind].ask("account", name, MANY)
            assert received + dropped == MANY
            assert len(found) == received
            if kind in COMPLETE:
                assert (dropped, found) == (0, whole)
            assert [number for number, _ in found] == sorted({number for number, _ in found})
            assert set(found) <= set(whole)
            numbers |= {number for number, _ in found}
        unpickled = hands[kind].ask("unpickled_numbers")
        assert set(unpickled.values()) <= {1}
        assert kind == "block" or numbers <= unpickled.keys()
    assert publisher.ask("unpickled_numbers") == {}


def test_nobody_waits_for_a_reader_of_the_latest_that_stands_still(hands: dict[str, Hand]) -> None:
    publisher, sizes = hands["publisher"], MIXED[:3000]
    publisher.ask("be_patient")
    subscribe(hands, *KINDS)
    publisher.ask("watch_waits")
    hands["latest"].freeze()
    assert publisher.ask("publish_counted", sizes) == len(sizes)
    assert publisher.ask("waits").keys() <= {"inproc"}
    for kind in COMPLETE:
        assert hands[kind].ask("account", kind, len(sizes)) == (len(sizes), 0, expected(sizes))
    hands["latest"].thaw()
    for kind in LOSSY:
        received, dropped, found = hands[kind].ask("account", kind, len(sizes))
        assert received + dropped == len(sizes)
        assert set(found) <= set(expected(sizes))


def test_without_a_reader_that_is_waited_for_no_publication_waits(hands: dict[str, Hand]) -> None:
    publisher, sizes = hands["publisher"], MIXED[:3000]
    publisher.ask("be_patient")
    subscribe(hands, "latest", "mailbox", "broadcast")
    publisher.ask("watch_waits")
    hands["latest"].freeze()
    assert publisher.ask("publish_counted", sizes) == len(sizes)
    assert publisher.ask("waits") == {}
