"""Alarms are published once each by an agent of the pipeline's own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from pzc import Agent, LocalLimit, Protocol
from pzc.pipeline.tables.alerts import TOPIC, WAITING, Alerts

from tests.pipeline.scarcity import no_threads


@pytest.fixture
def announcer() -> Iterator[Alerts]:
    with Alerts(Protocol("a key of the lab", "msgpack")) as announcer:
        yield announcer


def test_a_subscriber_gets_every_alarm_in_order(announcer: Alerts) -> None:
    heard: queue.Queue[Any] = queue.Queue()
    with Agent(protocol=Protocol("a key of the lab", "msgpack")) as listener:
        listener.subscribe(announcer.agent.rep_endpoint, TOPIC, lambda told: heard.put(told.content))
        announcer.tell([{"rule": "high", "value": float(n)} for n in range(3)])
        assert [heard.get(timeout=10)["value"] for _ in range(3)] == [0.0, 1.0, 2.0]
    announcer.close()
    assert (announcer.published, announcer.lost) == (3, 0)


def test_what_has_no_thread_to_publish_with_leaves_no_agent_behind() -> None:
    protocol = Protocol("a key of the lab", "msgpack")
    with Agent(protocol=protocol, discovery=False):  # the threads that agents share are there
        with no_threads(), pytest.raises(LocalLimit, match="ulimit -u"):
            Alerts(protocol)


class Busy:
    """In the place of an agent: publishes once it may."""

    def __init__(self) -> None:
        self.asked, self.may = threading.Event(), threading.Event()

    def publish(self, topic: str, content: object) -> None:
        self.asked.set()
        assert self.may.wait(10)


def test_alarms_beyond_the_bound_are_counted(announcer: Alerts, caplog: pytest.LogCaptureFixture) -> None:
    agent, busy = announcer.agent, Busy()
    announcer.agent = cast("Agent", busy)
    announcer.tell([{"rule": "high"}])
    assert busy.asked.wait(10)
    announcer.tell([{"rule": "high"}] * (WAITING + 3), more=4)
    assert announcer.lost == 7
    assert "7 alarms" in caplog.text
    busy.may.set()
    announcer.agent = agent


def test_an_alarm_that_cannot_be_published_is_counted_and_the_next_one_comes(announcer: Alerts) -> None:
    heard: queue.Queue[Any] = queue.Queue()
    with Agent(protocol=Protocol("a key of the lab", "msgpack")) as listener:
        endpoint = announcer.agent.rep_endpoint
        listener.subscribe(endpoint, TOPIC, lambda told: heard.put(told.content), transport="tcp")
        announcer.tell([{"rule": object()}, {"rule": "high"}])
        assert heard.get(timeout=10) == {"rule": "high"}
    announcer.close()
    assert (announcer.published, announcer.lost) == (1, 1)


def test_closing_again_does_nothing(announcer: Alerts) -> None:
    announcer.close()
    announcer.close()
    assert announcer.lost == 0
