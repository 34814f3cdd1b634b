"""Notifications of known series: judged in a short way, with the outcome of the general one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from pzc import Agent, Gap
from pzc.agents.notifications import publisher as publishers
from pzc.agents.notifications.broadcast_in import BroadcastIn

from tests.contract.rigs import altered
from tests.contract.rigs.altered import instead, published
from tests.contract.rigs.peers import TIMEOUT, Elsewhere, Forwarder, Frames

publisher = altered.publisher

pytestmark = pytest.mark.usefixtures("broadcast")


@pytest.fixture(autouse=True)
def trusting(timings: Callable[..., None]) -> None:
    """Messages are received in the quicker way from the first one of a known series on."""
    timings(hearing_doubts=1)


def test_what_comes_in_order_is_taken_in_the_short_way(
    publisher: Elsewhere, reader: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    general: list[int] = []
    accept = BroadcastIn._accept

    def seen(self: BroadcastIn, frames: Frames) -> None:
        general.append(int(frames[0].split(b"+")[3]))
        accept(self, frames)

    monkeypatch.setattr(BroadcastIn, "_accept", seen)
    numbers, gaps, refused = published(publisher, reader, lambda _, frames: [frames])
    assert (numbers, gaps, refused) == (list(range(1, 9)), [], 0)
    assert [number for number in general if number] == [1]


def test_what_is_old_is_refused_and_a_gap(
    publisher: Elsewhere, reader: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = threading.Event()
    monkeypatch.setattr(reader._subscribing.sub_socket._presence, "ask", lambda _: None)

    def late(frames: Frames) -> list[Frames]:
        monkeypatch.setattr(publishers, "time_ns", time.time_ns)
        arrived.set()
        return [frames]

    with Forwarder(publisher.pub_endpoint, instead(5, late)) as forwarder:
        publisher.advertised = forwarder.endpoint
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        for number in range(1, 5):
            publisher.publish("t", number)
        assert [subscription.recv(TIMEOUT).content for _ in range(4)] == [1, 2, 3, 4]
        monkeypatch.setattr(publishers, "time_ns", lambda: time.time_ns() - 60_000_000_000)
        publisher.publish("t", "old")
        assert arrived.wait(TIMEOUT)
        publisher.publish("t", "new")
        assert subscription.recv(TIMEOUT).content == "new"
        assert subscription.gaps == [Gap(publisher.epoch, 5, 5)]
        assert reader.counters["refused_StaleMessage"] == 1
        subscription.close()
