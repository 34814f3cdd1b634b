"""Notifications: what is lost is counted once, by whom it was lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pzc import Agent, block
from pzc.testing import Timings

from tests.contract.rigs.pairs import read, wait_until
from tests.contract.rigs.peers import TIMEOUT
from tests.contract.rigs.relay import Frames, Relay


def test_of_more_than_ten_thousand_that_were_held_only_the_rest_is_lost(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    policy, number = block(slots=300, timeout=TIMEOUT), 150
    with (
        Timings(early_notifications=100),
        Relay(publisher.rep_endpoint) as relay,
        ThreadPoolExecutor() as pool,
    ):
        publisher.advertise("t", buffers=300)
        first = reader.subscribe(relay.endpoint, "t", policy=policy, transport="tcp")
        relay.loses_answer = tells_lasts
        begun = pool.submit(reader.subscribe, relay.endpoint, "t", policy=policy, transport="tcp")
        assert relay.lost.wait(TIMEOUT)
        for content in range(number):
            publisher.publish("t", content)
        assert read(first, number) == list(range(number))
        relay.release()
        second = begun.result(TIMEOUT)
        wait_until(lambda: second.pending + second.dropped >= number)
        assert second.pending + second.dropped == number


APPLIED = 4
"""Kind of the message that confirms interests."""


def tells_lasts(frames: Frames) -> bool:
    """Whether an answer confirms subscriptions of a link."""
    return b"link" in frames and frames[frames.index(b"link") + 1][1] == APPLIED
