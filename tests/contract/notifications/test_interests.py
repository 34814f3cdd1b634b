"""Subscriptions of one process to one publisher: they share a link, and nothing that is counted."""

from __future__ import annotations

import numpy as np
import pytest

from pzc import Agent, Policy, Protocol, block, drop, latest

from tests.contract.rigs.pairs import OUTSIDE, pair, read, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, balance

over_a_wire = pytest.mark.parametrize("way", OUTSIDE)


@over_a_wire
def test_of_many_keys_no_other_one_is_sent(way: str) -> None:
    keys = [f"key {number}" for number in range(3000)]
    with pair() as (publisher, reader):
        subscription = reader.subscribe(
            publisher.rep_endpoint, "t", policy=block(slots=1), key=keys, transport=way
        )
        for number in range(100):
            publisher.publish("t", number, key="another")
        publisher.publish("t", "mine", key=keys[-1])
        assert subscription.recv(TIMEOUT).content == "mine"
        (link,) = publisher.statistics()["links"]["links"]
        assert (link["sent"], subscription.dropped) == (1, 0)


@pytest.mark.parametrize("policy", [drop(1000), latest(1000)], ids=["drop", "latest"])
def test_an_array_that_a_lossy_one_has_not_read_holds_up_no_block(policy: Policy) -> None:
    with (
        Agent(protocol=Protocol(KEY)) as publisher,
        Agent(protocol=Protocol(KEY, accept=("PZC01", "PZC00"))) as reader,
    ):
        publisher.advertise("t", buffers=1)
        waiting = reader.subscribe(publisher.rep_endpoint, "t", policy=block(timeout=5.0, slots=1))
        unread = reader.subscribe(publisher.rep_endpoint, "t", policy=policy)
        for number in range(10):
            publisher.publish("t", np.full(100_000, number))
            assert waiting.recv(TIMEOUT).content[0] == number
        assert len(publisher.statistics()["links"]["links"]) == 1
        while balance(unread) < 10:
            assert unread.recv(TIMEOUT).content[0] >= unread.received - 1
        assert balance(unread) == 10


@over_a_wire
def test_what_joins_later_is_told_no_losses_of_before(way: str) -> None:
    with pair() as (publisher, reader):
        first = reader.subscribe(publisher.rep_endpoint, "t", policy=drop(1), transport=way)
        for number in range(5):
            publisher.publish("t", number)
        later = reader.subscribe(publisher.rep_endpoint, "t", policy=drop(8), transport=way)
        publisher.publish("t", 5)
        assert read(later, 1) == [5]
        assert read(first, 1) == [0]
        wait_until(lambda: first.dropped == 5)
        assert (later.dropped, later.gaps) == (0, [])
