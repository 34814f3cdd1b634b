"""Broadcast subscriptions to a publisher whose PUB port nobody reaches."""

from __future__ import annotations

import gc
import logging
import socket
import threading
import weakref
from collections.abc import Iterator

import pytest

from pzc import Agent, CallTimeout, Protocol

from tests.contract.rigs.peers import KEY, TIMEOUT, Elsewhere


@pytest.fixture
def walled() -> Iterator[Agent]:
    """A publisher that announces a port at which nobody listens."""
    with socket.socket() as taken, Elsewhere(protocol=Protocol(KEY)) as publisher:
        taken.bind(("127.0.0.1", 0))
        publisher.advertised = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        yield publisher


@pytest.fixture
def reader() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


@pytest.mark.parametrize("transport", [None, "auto"])
def test_a_link_takes_the_place_of_broadcast_notifications_that_cannot_come(
    walled: Agent, reader: Agent, transport: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pzc.subscriber"):
        subscription = reader.subscribe(walled.rep_endpoint, "t", transport=transport, timeout=4.0)
    walled.publish("t", 1)
    assert subscription.recv(TIMEOUT).content == 1
    assert reader.statistics()["counts"]["broadcast_replaced"] == 1
    assert ["comes over a link" in record.getMessage() for record in caplog.records] == [True]


def test_what_stood_beside_it_is_not_kept_by_what_could_not_come(
    walled: Agent, reader: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "pzc")  # whoever keeps a log record keeps the frames

    def stand_beside() -> weakref.ref[threading.Event]:
        beside = threading.Event()
        reader.subscribe(walled.rep_endpoint, "t", timeout=2.0)
        return weakref.ref(beside)

    gc.collect()
    gc.disable()
    try:
        assert stand_beside()() is None
    finally:
        gc.enable()


def test_nothing_is_left_of_the_broadcast_subscription(walled: Agent, reader: Agent) -> None:
    subscription = reader.subscribe(walled.rep_endpoint, "t", timeout=2.0)
    assert [each["topic"] for each in reader.statistics()["subscriptions"]] == ["t"]
    subscription.close()
    assert reader.statistics()["subscriptions"] == []


def test_the_link_begins_with_what_was_kept(walled: Agent, reader: Agent) -> None:
    walled.advertise("t", keep_last=True)
    walled.publish("t", 1)
    subscription = reader.subscribe(walled.rep_endpoint, "t", initial=True, timeout=4.0)
    walled.publish("t", 2)
    assert [subscription.recv(TIMEOUT).content for _ in range(2)] == [1, 2]


def test_a_transport_that_was_asked_for_stays_the_only_one(walled: Agent, reader: Agent) -> None:
    with pytest.raises(CallTimeout, match="is that port open"):
        reader.subscribe(walled.rep_endpoint, "t", transport="tcp", timeout=0.5)
    assert reader.statistics()["subscriptions"] == []


def test_a_publisher_that_refuses_the_policy_over_links_leaves_the_port_to_be_told_of(
    walled: Agent, reader: Agent
) -> None:
    walled.advertise("t", policies=["block"])
    with pytest.raises(CallTimeout, match="is that port open"):
        reader.subscribe(walled.rep_endpoint, "t", timeout=2.0)
    assert reader.statistics()["subscriptions"] == []


def test_raw_frames_come_by_broadcast_or_not_at_all(walled: Agent, reader: Agent) -> None:
    with pytest.raises(CallTimeout, match="is that port open"):
        reader.subscribe(walled.rep_endpoint, "t", raw=True, timeout=0.5)
