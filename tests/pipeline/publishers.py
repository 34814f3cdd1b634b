"""Publishers in processes of their own, whose mailboxes are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pzc import Agent, Protocol

from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Hand, Workers
from tests.contract.rigs.waiting import eventually
from tests.contract.rigs.workers import RANDOM_TCP

PATIENCE = 120.0
"""Seconds that a JVM may take on a busy machine."""


class Publisher:
    """What such a process does when it is told; every method is a word."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def endpoint(self) -> str:
        return self.agent.rep_endpoint

    def publish(self, topic: str, count: int) -> int:
        """Publish so many numbers as fast as it goes; the topic's last number."""
        last = 0
        for number in range(count):
            last = self.agent.publish(topic, float(number))
        return last

    def mailboxes(self) -> list[dict[str, Any]]:
        return self.agent.statistics()["mailboxes"]


@contextmanager
def publishing(rep: str = RANDOM_TCP, name: str | None = None) -> Iterator[Publisher]:
    with Agent(rep, name=name, protocol=Protocol(KEY)) as agent:
        yield Publisher(agent)


class Publishers(Workers):
    """The publishers of one test; all are killed at its end."""

    def start(self, *given: str | None, timings: dict[str, Any] | None = None) -> Hand:
        return self.begin(publishing, *given, timings=timings)


def await_(condition: Callable[[], object], what: str = "it", seconds: float = PATIENCE) -> None:
    """Wait for a state of which nobody tells."""
    eventually(condition, seconds, what)


def is_read(hand: Hand) -> bool:
    """Whether a process has subscribed to a mailbox of a publisher."""
    return any(each["subscriptions"] for each in hand.ask("mailboxes"))


def waiting(hand: Hand) -> int:
    """What the mailboxes of a publisher hold."""
    return sum(each["waiting"] for each in hand.ask("mailboxes"))
