"""A subscription to a name that nobody has yet begins once somebody has it, and is one as any other from then on."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from pzc import Agent, Gap, Protocol, Refused, SubscriptionClosed, UnknownName

from tests.contract.rigs.peers import TIMEOUT, Inbox

SHORT = 0.1
"""Seconds after which nobody has a name."""


def test_what_is_published_once_the_name_is_there_arrives() -> None:
    with Agent(name="other") as other, Agent() as reader:
        with reader.subscribe("come1", "t", timeout=SHORT) as subscription, Agent(name="come1") as publisher:
            assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
            other.publish("t", "another's")
            publisher.publish("t", 7)
            notification = subscription.recv(TIMEOUT)
    assert (notification.content, notification.name, subscription.dropped) == (7, "come1", 0)


def test_the_own_namespace_comes_first() -> None:
    with Agent(namespace="hall") as reader, reader.subscribe("come2", "t", timeout=SHORT) as subscription:
        with Agent(name="come2", namespace="hall") as near:
            assert near.wait_for_subscribers("t", 1, TIMEOUT)
            near.publish("t", "near")
            assert subscription.recv(TIMEOUT).content == "near"


def test_a_name_of_another_partition_may_come_as_well() -> None:
    with Agent() as reader, reader.subscribe("@far@/come3", "t", timeout=SHORT) as subscription:
        with Agent(name="come3", partition="far") as publisher:
            assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
            publisher.publish("t", 1)
            assert subscription.recv(TIMEOUT).content == 1


def test_a_restart_of_the_publisher_is_one_gap_and_the_subscription_follows() -> None:
    gaps = queue.SimpleQueue[Gap]()
    with Agent() as reader, reader.subscribe("come4", "t", timeout=SHORT) as subscription:
        subscription.on_gap = gaps.put
        for number in range(2):
            with Agent(name="come4") as publisher:
                assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
                publisher.publish("t", number)
                assert subscription.recv(TIMEOUT).content == number
        assert gaps.get(timeout=TIMEOUT).restarted
    assert gaps.empty()


def test_what_refuses_it_when_it_is_there_ends_it() -> None:
    lost: list[str] = []
    told = threading.Event()

    def on_lost(reason: str) -> None:
        lost.append(reason)
        told.set()

    with Agent() as reader:
        subscription = reader.subscribe("come5", "t", initial=True, timeout=SHORT)
        subscription.on_lost = on_lost
        with Agent(name="come5", protocol=Protocol(dialect="PZC00", accept=("PZC00",))):
            assert told.wait(TIMEOUT)
        with pytest.raises(SubscriptionClosed) as closed:
            subscription.recv(TIMEOUT)
    assert isinstance(closed.value.__cause__, Refused)
    assert "keeps nothing" in lost[0]


def test_a_subscription_that_was_closed_before_never_begins() -> None:
    inbox = Inbox()
    with Agent() as reader:
        reader.subscribe("come6", "t", inbox, timeout=SHORT).close()
        with reader.subscribe("come6", "other", timeout=SHORT), Agent(name="come6") as publisher:
            assert publisher.wait_for_subscribers("other", 1, TIMEOUT)
            assert not publisher.wait_for_subscribers("t", 1, 0)


@pytest.mark.parametrize("there", [False, True])
def test_it_is_unsubscribed_by_its_name(there: bool) -> None:
    with Agent() as reader:
        subscription = reader.subscribe("come7", "t", timeout=SHORT)
        publisher = Agent(name="come7") if there else None
        try:
            if publisher is not None:
                assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
            assert reader.unsubscribe("come7", "t") == 1
        finally:
            if publisher is not None:
                publisher.stop()
        assert subscription.closed


def test_whoever_needs_the_name_now_is_told_that_it_is_unknown() -> None:
    with Agent() as reader, pytest.raises(UnknownName, match="come8"):
        reader.subscribe("come8", "t", timeout=SHORT, must_exist=True)


@pytest.mark.parametrize("options", [{"discovery": False}, {}], ids=["agent", "environment"])
def test_where_no_name_can_be_heard_of_it_is_unknown(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    if not options:
        monkeypatch.setenv("PZC_DISCOVERY_IP", "off")
    with Agent(**options) as reader, pytest.raises(UnknownName, match="switched off"):
        reader.subscribe("come9", "t", timeout=SHORT)
