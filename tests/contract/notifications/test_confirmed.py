"""Whoever is told that its subscription stands misses nothing from then on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, Protocol, block, drop, mailbox

from tests.contract.rigs.peers import KEY


class Deliberate(Agent):
    """Takes its time to act upon a change of its subscribers."""

    def _prepare(self) -> None:
        self.acted = 0

    def on_subscribers(self) -> None:
        threading.Event().wait(0.05)
        self.acted = self._publishing.publisher.is_wanted("voltage")


class Failing(Agent):
    def on_subscribers(self) -> None:
        raise ValueError("the supply is off")


@pytest.fixture
def reader() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


WAYS = [
    pytest.param({"policy": policy, "transport": transport}, id=f"{policy.name}-{transport}")
    for policy, transport in [
        (drop(), "inproc"), (drop(), "unix"), (drop(), "tcp"),
        (block(), "inproc"), (block(), "unix"), (block(), "tcp"), (mailbox(), "tcp"),
    ]
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_publisher_has_acted_upon_a_subscription_before_it_is_confirmed(
    reader: Agent, way: dict[str, Any]
) -> None:
    with Deliberate(protocol=Protocol(KEY)) as publisher:
        reader.subscribe(publisher.rep_endpoint, "voltage", **way)
        assert publisher.acted


@pytest.mark.parametrize("way", WAYS)
def test_a_publisher_that_fails_to_act_is_subscribed_to_all_the_same(
    reader: Agent, way: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with Failing(protocol=Protocol(KEY)) as publisher:
        subscription = reader.subscribe(publisher.rep_endpoint, "voltage", **way)
        publisher.publish("voltage", 3)
        assert subscription.recv(timeout=20).content == 3
    assert "the supply is off" in caplog.text
