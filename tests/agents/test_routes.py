"""Routes of topics: what they cost when there are many, and the memory that they stand for."""

from __future__ import annotations

from pzc import Agent


def test_the_ring_has_the_buffers_that_the_topics_were_advertised_with_last() -> None:
    with Agent() as publisher:
        ring = publisher._publishing.outlets.ring
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
