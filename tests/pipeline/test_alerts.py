"""Alarms are published once each by an agent of the pipeline's own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, LocalLimit, Protocol
from pzc.pipeline.tables.alerts import TOPIC, Alerts


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


def test_what_has_no_thread_to_publish_with_leaves_no_agent_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    start, agents = threading.Thread.start, list[Agent]()

    def sometimes(self: threading.Thread) -> None:
        if self.name == "pzc-alarms":
            raise RuntimeError("can't start new thread")
        start(self)

    class Noted(Agent):
        def _prepare(self) -> None:
            agents.append(self)

    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", sometimes)
        scarce.setattr("pzc.pipeline.tables.alerts.Agent", Noted)
        with pytest.raises(LocalLimit, match="ulimit -u"):
            Alerts(Protocol("a key of the lab", "msgpack"))
    assert [agent.join(0.0) for agent in agents] == [True]


def test_alarms_beyond_the_bound_are_counted(
    announcer: Alerts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(announcer, "_queue", queue.Queue(2))  # of which nobody takes anything
        announcer.tell([{"rule": "high"}] * 5, more=4)
    assert announcer.lost == 7
    assert "7 alarms" in caplog.text


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
