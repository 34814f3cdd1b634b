"""Readers of one process that read one topic with different policies."""

from __future__ import annotations

from collections import Counter

import pytest

from pzc import Agent, Protocol, block, drop, latest

from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import KEY, TIMEOUT, Inbox

made: Counter[int] = Counter()


class Reading:
    """Tells how often it came out of its bytes."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.filled = bytes(size)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        made[self.number] += 1


@pytest.mark.parametrize(
    ("transport", "size"), [("unix", 10), ("unix", 100_000), ("tcp", 10)], ids=["unix", "large", "tcp"]
)
def test_a_content_for_several_policies_is_decoded_once(transport: str, size: int) -> None:
    made.clear()
    trusted = Protocol(KEY)  # whose pickles are read
    with Agent(protocol=trusted) as publisher, Agent(protocol=trusted) as reader:
        publisher.advertise("t", zero_copy=False)  # in memory of the process, whatever its size
        whole, some = Inbox(), Inbox()
        for inbox, policy in ((whole, block(TIMEOUT)), (some, drop(1000))):
            reader.subscribe(
                publisher.rep_endpoint, "t", inbox, policy=policy, transport=transport, type="Reading"
            )
        for number in range(20):
            publisher.publish("t", Reading(number, size))
        assert [each.number for each in whole.contents(20)] == list(range(20))
        assert [each.number for each in some.contents(20)] == list(range(20))
    assert made == Counter(range(20))


def test_each_policy_gets_its_own_in_order_while_another_one_lags() -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        whole = reader.subscribe(publisher.rep_endpoint, "t", policy=block(TIMEOUT), transport="unix")
        newest = reader.subscribe(publisher.rep_endpoint, "t", policy=latest(1), transport="unix")
        some = reader.subscribe(publisher.rep_endpoint, "t", policy=drop(5), transport="unix")
        for number in range(30):
            publisher.publish("t", number)
        assert [whole.recv(TIMEOUT).content for _ in range(30)] == list(range(30))
        assert [some.recv(TIMEOUT).content for _ in range(5)] == list(range(5))
        eventually(lambda: newest.received + newest.dropped + newest.pending == 30)
        assert newest.recv(TIMEOUT).content == 29
        assert (some.dropped, newest.dropped) == (25, 29)
