"""Routes of topics: what they cost when there are many, and the memory that they stand for."""

from __future__ import annotations

import sys
from functools import partial

from pzc import Agent, block, drop, latest

from tests.agents.in_parts import InParts
from tests.contract.rigs.pairs import wait_until


def test_the_ring_has_the_buffers_that_the_topics_were_advertised_with_last() -> None:
    with InParts() as publisher:
        ring = publisher.publishing.subscribers.ring
        before = ring.buffers
        publisher.advertise("a", buffers=100)
        publisher.advertise("b", buffers=50)
        assert ring.buffers == before + 150 - 32
        publisher.advertise("a", buffers=10)
        publisher.advertise("b", buffers=30)
        assert ring.buffers == before + 40 - 32
        publisher.advertise("a", buffers=1)
        publisher.advertise("b", buffers=1)
        assert ring.buffers == before


def test_the_ring_has_blocks_more_for_a_link_as_long_as_one_interest_there_may_lose() -> None:
    with InParts() as publisher, Agent() as reader:
        ring = publisher.publishing.subscribers.ring
        subscribe = partial(reader.subscribe, publisher.rep_endpoint, "t", transport="unix")
        with subscribe(policy=block()):
            assert ring.lossy == 0
            with subscribe(policy=drop()), subscribe(policy=latest()):
                assert ring.lossy == 2
            wait_until(lambda: ring.lossy == 0)


def test_one_interest_more_costs_as_much_beside_a_thousand_others() -> None:
    with InParts() as publisher, Agent() as reader:
        routes = publisher.publishing.subscribers.routes

        def steps() -> int:
            """Functions that are called, or go on, to renew the ways."""
            counted: list[str] = []
            with publisher.publishing.subscribers.lock:
                sys.setprofile(lambda frame, event, _: counted.append(event) if event == "call" else None)
                try:
                    routes.renew_transports()
                finally:
                    sys.setprofile(None)
            return len(counted)

        subscribe = partial(reader.subscribe, publisher.rep_endpoint, policy=block(), transport="unix")
        subscribe("t")
        one = steps()
        for number in range(1000):
            subscribe(f"t-{number}")
        assert steps() == one
