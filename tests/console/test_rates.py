"""``pzc hz`` and ``pzc bw``: what they count and print."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import Agent, Notification
from pzc.console import rates
from pzc.console.rates import Flow, Pace, bw_line, hz_line, in_bytes

from tests.console.command import Console


@pytest.fixture
def source() -> Iterator[Agent]:
    with Agent(name="source") as agent:
        yield agent


@contextmanager
def _publishing(source: Agent, topic: str, content: object, pause: float = 0.005) -> Iterator[None]:
    """Publish again and again meanwhile."""
    stop = threading.Event()

    def publish() -> None:
        while not stop.wait(pause):
            source.publish(topic, content)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])
def test_hz_tells_rate_and_intervals_as_json(pzc: Console, source: Agent, transport: str) -> None:
    with _publishing(source, "readings", 1):
        outcome = pzc("hz", f"{source.rep_endpoint}.readings", "-n", "2", "--json", "--transport", transport)
    assert (outcome.status, outcome.err) == (0, "")
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert [set(row) for row in rows] == [
        {"topic", "gaps", "lost", "messages", "rate_hz", "min_s", "max_s", "std_s"}
    ] * 2
    assert rows[0]["messages"] >= 2
    assert rows[1]["messages"] > rows[0]["messages"]
    assert rows[1]["rate_hz"] > 0
    assert rows[1]["min_s"] <= rows[1]["max_s"]
    assert (rows[1]["gaps"], rows[1]["lost"]) == (0, 0)


@pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])
def test_bw_tells_bytes_as_json(pzc: Console, source: Agent, transport: str) -> None:
    with _publishing(source, "readings", bytes(1000)):
        outcome = pzc("bw", f"{source.rep_endpoint}.readings", "-n", "1", "--json", "--transport", transport)
    assert (outcome.status, outcome.err) == (0, "")
    row = outcome.json
    assert row["messages"] >= 1
    assert 1000 <= row["min_bytes"] <= row["mean_bytes"] <= row["max_bytes"] < 1100
    assert row["bytes_per_s"] > 0


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_a_line_for_people(pzc: Console, source: Agent, command: str) -> None:
    with _publishing(source, "readings", 1):
        outcome = pzc(command, f"{source.rep_endpoint}.readings", "--count", "1", "--window", "5")
    assert (outcome.status, outcome.err) == (0, "")
    assert " messages" in outcome.out
    assert len(outcome.out.splitlines()) == 1


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_a_silent_topic_is_an_error_at_the_end(pzc: Console, source: Agent, command: str) -> None:
    outcome = pzc(command, f"{source.rep_endpoint}.readings", "-n", "1")
    assert outcome.status == 1
    assert outcome.err == (
        f"pzc: ReceiveTimeout: no notification of {source.rep_endpoint}.readings came within 1 s\n"
    )


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_a_topic_that_is_no_signal_is_told(bench: Console, command: str) -> None:
    outcome = bench(command, "psu.voltage", "-n", "2")
    assert outcome.err.startswith("pzc: psu has no signal 'voltage' (it has: changed)")


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_nobody_there_is_an_error(pzc: Console, command: str) -> None:
    outcome = pzc(command, "tcp://127.0.0.1:9.readings", "-n", "1", "--timeout", "1")
    assert outcome.status == 1
    assert outcome.err.startswith("pzc: ")


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_an_interrupt_is_quiet_with_status_130(pzc: Console, source: Agent, command: str) -> None:
    with _publishing(source, "readings", 1):
        process = pzc.start(command, f"{source.rep_endpoint}.readings")
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        outcome = pzc.finish(process)
    assert (outcome.status, outcome.err) == (130, "")


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_help_has_an_example(pzc: Console, command: str) -> None:
    outcome = pzc(command, "--help")
    assert outcome.status == 0
    assert f"example:\n  pzc {command} " in outcome.out


def test_a_topic_that_stays_on_its_host_is_measured_over_its_link(pzc: Console, source: Agent) -> None:
    source.advertise("readings", scope="host")
    with _publishing(source, "readings", bytes(100)):
        refused = pzc("hz", f"{source.rep_endpoint}.readings", "-n", "1", "--transport", "tcp")
        outcome = pzc("hz", f"{source.rep_endpoint}.readings", "-n", "1", "--json")
    assert refused.status == 1
    assert "transport='unix'" in refused.err
    assert outcome.json["messages"] >= 1


def _notification(received_at: float, size: int = 0) -> Notification:
    return Notification("p", "", "t", "", 1, 1, 0.0, received_at, None, size=size)


def test_a_pace_is_that_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates.time, "time", lambda: 100.0)
    pace = Pace(10.0)
    for received_at in (1.0, 98.0, 99.0, 99.5):
        pace.add(_notification(received_at))
    told = pace.tell()
    assert (told["messages"], told["min_s"], told["max_s"], told["std_s"]) == (3, 0.5, 1.0, 0.25)
    assert told["rate_hz"] == pytest.approx(2 / 1.5)


def test_a_flow_is_that_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [90.0]
    monkeypatch.setattr(rates.time, "time", lambda: now[0])
    flow = Flow(10.0)
    now[0] = 120.0
    for received_at, size in ((100.0, 1), (115.0, 100), (119.0, 300)):
        flow.add(_notification(received_at, size))
    assert flow.tell() == {
        "messages": 2, "bytes_per_s": 40.0, "mean_bytes": 200.0, "min_bytes": 100, "max_bytes": 300,
    }  # fmt: skip


def test_a_flow_that_began_lately_is_that_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [90.0]
    monkeypatch.setattr(rates.time, "time", lambda: now[0])
    flow = Flow(10.0)
    now[0] = 92.0
    flow.add(_notification(91.0, 100))
    assert flow.tell()["bytes_per_s"] == 50.0


def _hz(**told: Any) -> dict[str, Any]:
    return {
        "messages": 3, "rate_hz": 2.0, "min_s": 0.4, "max_s": 0.6, "std_s": 0.1, "gaps": 0, "lost": 0, **told
    }  # fmt: skip


def test_losses_stand_on_the_line() -> None:
    assert hz_line(_hz()) == "2.000 Hz  min 400.000 ms  max 600.000 ms  std 100.000 ms  3 messages"
    assert hz_line(_hz(lost=5, gaps=2)).endswith("3 messages  5 lost in 2 gaps")
    assert hz_line(_hz(messages=0)) == "0 messages, no rate yet"
    assert bw_line({"messages": 0, "lost": 1, "gaps": 1}) == "0 messages  1 lost in 1 gaps"


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (2.5e6, "2.50 MB"), (3e12, "3000.00 GB")],
)
def test_bytes_for_people(size: float, shown: str) -> None:
    assert in_bytes(size) == shown
