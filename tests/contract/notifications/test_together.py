"""Readers of all kinds at once, each in a process: who is to get everything does, and nobody else matters."""

from __future__ import annotations

import pytest

from tests.contract.acceptance import acceptance
from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.processes import Hand, Workers
from tests.contract.rigs.together import KINDS, MIXED, together

COMPLETE = ("block", "mailbox")
LOSSY = ("latest", "broadcast")
PATIENT = {"silence": 3600.0}
"""Nobody who stands still is taken for dead, however slow this machine is."""

SECOND = " again"
"""A second subscription of each kind, in the same process as the first one."""


@pytest.fixture
def hands(workers: Workers) -> dict[str, Hand]:
    """A publisher, in whose process the ``block`` reader is, and processes for the others."""
    names = ("publisher", "latest", "mailbox", "broadcast")
    made = {name: workers.begin(together, timings=PATIENT) for name in names}
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


@acceptance("X1", "E4")
@pytest.mark.parametrize("sizes", [MIXED[:1000], pytest.param(MIXED, marks=pytest.mark.slow)], ids=len)
def test_of_four_kinds_of_readers_two_get_everything_in_order_and_two_count_what_they_miss(
    hands: dict[str, Hand], sizes: list[int]
) -> None:
    publisher, whole, many = hands["publisher"], expected(sizes), len(sizes)
    subscribe(hands, *KINDS)
    assert publisher.ask("publish_counted", sizes) == many
    for kind in KINDS:
        numbers: set[int] = set()
        for name in (kind, kind + SECOND):
            received, dropped, found = hands[kind].ask("account", name, many)
            assert received + dropped == many
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


@acceptance("X2")
@pytest.mark.parametrize(
    "beside", [("block", "mailbox", "broadcast"), ("mailbox", "broadcast")], ids=["", "no block"]
)
def test_nobody_waits_for_a_reader_of_the_latest_that_stands_still(
    hands: dict[str, Hand], beside: tuple[str, ...]
) -> None:
    """One that did would wait until the end: the reader goes on when all the others have everything."""
    publisher, sizes = hands["publisher"], MIXED[:3000]
    subscribe(hands, "latest", *beside)
    hands["latest"].freeze()
    assert publisher.ask("publish_counted", sizes) == len(sizes)
    for kind in set(beside) & set(COMPLETE):
        assert hands[kind].ask("account", kind, len(sizes)) == (len(sizes), 0, expected(sizes))
    hands["latest"].thaw()
    for kind in LOSSY:
        received, dropped, found = hands[kind].ask("account", kind, len(sizes))
        assert received + dropped == len(sizes)
        assert set(found) <= set(expected(sizes))
