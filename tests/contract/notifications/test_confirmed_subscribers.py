"""Notifications: what was lost without a word, or asked for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pzc import Agent, Server, Signal, block, drop, latest, mailbox

from tests.contract.rigs.peers import TIMEOUT, Inbox, in_place_of


class Gate(Signal):
    """A signal to which nobody is connected before its gate is open."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self.gate = gate

    def connect(self, slot: Callable[..., object]) -> None:
        assert self.gate.wait(TIMEOUT)
        super().connect(slot)


class Dial:
    """Turns when it is told to."""

    def __init__(self, gate: threading.Event) -> None:
        self.turned = Gate(gate)


@pytest.mark.parametrize(
    ("transport", "policy"),
    [("auto", drop()), ("auto", latest()), ("unix", drop()), ("tcp", latest()), ("tcp", mailbox())],
    ids=["inside", "inside newest", "unix", "tcp", "mailbox"],
)
def test_nobody_is_counted_as_subscriber_before_the_server_is_connected(transport: str, policy: Any) -> None:
    gate, heard = threading.Event(), Inbox()
    dial = Dial(gate)
    with Server(dial, discovery=False) as server, Agent(discovery=False) as reader:
        subscribing = threading.Thread(
            target=reader.subscribe,
            args=(server.rep_endpoint, "turned", heard),
            kwargs={"transport": transport, "policy": policy},
        )
        subscribing.start()
        assert not server.wait_for_subscribers("turned", 1, 0.1)
        gate.set()
        assert server.wait_for_subscribers("turned", 1, TIMEOUT)
        dial.turned.emit(7)
        subscribing.join(TIMEOUT)
        assert heard.next().content[0] == 7


@pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])
def test_what_is_emitted_behind_wait_for_subscribers_arrives_each_time(transport: str) -> None:
    gate = threading.Event()
    gate.set()
    with Agent(discovery=False) as reader:
        for value in range(3):
            dial, heard = Dial(gate), Inbox()
            with Server(dial, discovery=False) as server:
                kwargs = {"transport": transport}
                args = server.rep_endpoint, "turned", heard
                subscribing = threading.Thread(target=reader.subscribe, args=args, kwargs=kwargs)
                subscribing.start()
                assert server.wait_for_subscribers("turned", 1, TIMEOUT)
                dial.turned.emit(value)
                subscribing.join(TIMEOUT)
                assert heard.next().content[0] == value


def test_waiting_for_subscribers_is_true_at_once_when_they_are_there() -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        reader.subscribe(publisher.rep_endpoint, "t")
        publisher.advertise("t", buffers=8)
        assert publisher.wait_for_subscribers("t", 1, 0.0)
        assert not publisher.wait_for_subscribers("t", 2, 0.0)


def test_a_block_reader_gets_everything_that_lies_in_more_than_256_blocks() -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        publisher.advertise("t", buffers=300)
        policy = block(timeout=TIMEOUT, slots=300)
        with reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport="unix") as reading:
            for size in (9000, 9000, 15_000):  # above what goes inline; the third time in other blocks
                for number in range(300):
                    publisher.publish("t", np.full(size, number, np.float64))
                assert [reading.recv(TIMEOUT).content[-1] for _ in range(300)] == [*range(300)]
            assert (reading.gaps, reading.dropped) == ([], 0)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_typed_subscription_asks_the_agent_that_took_its_publisher_s_place(transport: str) -> None:
    with Agent(discovery=False) as reader:
        first = Agent(discovery=False)
        endpoint = first.rep_endpoint
        reader.subscribe(endpoint, "t", policy=block(), transport=transport, type="Reading")
        first.stop()
        with in_place_of(first, Agent, endpoint, discovery=False) as second:
            assert second.wait_for_subscribers("t", 1, TIMEOUT)
            before = refused(second)
            threading.Event().wait(0.5)
            assert refused(second) - before < 3


def refused(agent: Agent) -> int:
    """Requests that were not for this agent."""
    return agent.statistics()["counts"].get("requests_refused", 0)
