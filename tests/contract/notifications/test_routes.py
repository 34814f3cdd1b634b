"""Routes of topics: what they cost when there are many, and the memory that they stand for."""

from __future__ import annotations

import sys
from types import FrameType

from pzc import Agent

from tests.contract.rigs.pairs import LONG, pair


def _calls_to_advertise(publisher: Agent, topic: str) -> int:
    """Calls of Python functions, generators included, in this thread."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        publisher.advertise(topic)
    finally:
        sys.setprofile(None)
    return calls


def test_to_advertise_a_topic_costs_no_more_however_many_there_are() -> None:
    with pair() as (publisher, reader):
        costs: list[int] = []
        for first, last in ((0, 10), (10, 300)):
            for number in range(first, last):
                publisher.advertise(f"t{number}")
                reader.subscribe(publisher.rep_endpoint, f"t{number}", policy=LONG, transport="inproc")
            costs.append(_calls_to_advertise(publisher, f"other than {last}"))
        assert costs[1] <= costs[0]
