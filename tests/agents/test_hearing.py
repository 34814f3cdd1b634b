"""Notifications of known series: judged in a short way, with the outcome of the general one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pzc import Agent, Gap, Protocol
from pzc.protocol.codec import Message
from pzc.protocol.frames import Buffer, Kind

from tests.agents.stamped import stamped
from tests.contract.rigs import altered
from tests.contract.rigs.altered import instead, published
from tests.contract.rigs.peers import KEY, TIMEOUT, Elsewhere, Forwarder

publisher = altered.publisher

pytestmark = pytest.mark.usefixtures("broadcast")


@pytest.fixture(autouse=True)
def trusting(timings: Callable[..., None]) -> None:
    """Messages are received in the quicker way from the first one of a known series on."""
    timings(hearing_doubts=1)


class Noting(Protocol):
    """Notes the numbers of notifications that are judged the general way."""

    def __init__(self, key: str) -> None:
        self.general: list[int] = []
        super().__init__(key)

    def open(self, frames: Sequence[Buffer], kind: Kind, **options: Any) -> Message:
        if kind is Kind.NOTIFICATION:
            self.general.append(int(bytes(frames[0]).split(b"+")[3]))
        return super().open(frames, kind, **options)


def test_what_comes_in_order_is_taken_in_the_short_way(publisher: Elsewhere) -> None:
    noting = Noting(KEY)
    with Agent(protocol=noting) as reader:
        numbers, gaps, refused = published(publisher, reader, lambda _, frames: [frames])
    assert (numbers, gaps, refused) == (list(range(1, 9)), [], 0)
    assert [number for number in noting.general if number] == [1]


def test_what_is_old_is_refused_and_a_gap(publisher: Elsewhere, reader: Agent) -> None:
    late = lambda _: [stamped(publisher, "old", 5, 60.0)]  # noqa: E731
    with Forwarder(publisher.pub_endpoint, instead(5, late)) as forwarder:
        publisher.advertised = forwarder.endpoint
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        for number in range(1, 7):
            publisher.publish("t", number)
        assert [subscription.recv(TIMEOUT).content for _ in range(5)] == [1, 2, 3, 4, 6]
        assert subscription.gaps == [Gap(publisher.epoch, 5, 5)]
        assert reader.counters["refused_StaleMessage"] == 1
        subscription.close()
