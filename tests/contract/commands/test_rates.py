"""``pzc hz`` and ``pzc bw``: what they count and print."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pzc import Agent
from pzc.testing import Running

from tests.contract.rigs.console import Console

EVERY_WAY = pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])


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


@EVERY_WAY
def test_hz_tells_rate_and_intervals_as_json(console: Console, source: Agent, transport: str) -> None:
    with _publishing(source, "readings", 1):
        outcome = console(
            "hz",
            f"{source.rep_endpoint}/readings",
            "-n",
            "2",
            "--every",
            "0.3",
            "--json",
            "--transport",
            transport,
        )
    assert (outcome.status, outcome.err) == (0, "")
    rows = outcome.rows
    assert [set(row) for row in rows] == [
        {"topic", "gaps", "lost", "messages", "rate_hz", "min_s", "max_s", "std_s"}
    ] * 2
    assert rows[1]["messages"] > rows[0]["messages"]
    assert rows[1]["rate_hz"] > 0
    assert rows[1]["min_s"] <= rows[1]["max_s"]
    assert (rows[1]["gaps"], rows[1]["lost"]) == (0, 0)


@EVERY_WAY
def test_bw_tells_bytes_as_json(console: Console, source: Agent, transport: str) -> None:
    with _publishing(source, "readings", bytes(1000)):
        outcome = console(
            "bw",
            f"{source.rep_endpoint}/readings",
            "-n",
            "1",
            "--every",
            "0.1",
            "--json",
            "--transport",
            transport,
        )
    assert (outcome.status, outcome.err) == (0, "")
    row = outcome.json
    assert row["messages"] >= 1
    assert 1000 <= row["min_bytes"] <= row["mean_bytes"] <= row["max_bytes"] < 1100
    assert row["bytes_per_s"] > 0


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_a_line_for_people(console: Console, source: Agent, command: str) -> None:
    with _publishing(source, "readings", 1):
        outcome = console(
            command, f"{source.rep_endpoint}/readings", "--count", "1", "--window", "5", "--every", "0.1"
        )
    assert (outcome.status, outcome.err) == (0, "")
    assert " messages" in outcome.out
    assert len(outcome.out.splitlines()) == 1


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_a_silent_topic_is_an_error_at_the_end(console: Console, source: Agent, command: str) -> None:
    outcome = console(command, f"{source.rep_endpoint}/readings", "-n", "2", "--every", "0.1")
    assert outcome.status == 1
    assert outcome.err == (
        f"pzc: ReceiveTimeout: no notification of {source.rep_endpoint}/readings came within 0.2 s\n"
    )


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_a_topic_that_is_no_signal_is_told(bench: Console, command: str) -> None:
    outcome = bench(command, "psu/voltage", "-n", "2", "--every", "0.1")
    assert outcome.err.startswith("pzc: psu has no signal 'voltage' (it has: changed)")


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_nobody_there_is_an_error(console: Console, command: str) -> None:
    outcome = console(command, "tcp://127.0.0.1:9/readings", "-n", "1", "--timeout", "0.3")
    assert outcome.status == 1
    assert outcome.err.startswith("pzc: ")


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_an_interrupt_is_quiet_with_status_130(console: Console, source: Agent, command: str) -> None:
    with _publishing(source, "readings", 1):
        outcome = console(
            command, f"{source.rep_endpoint}/readings", "--every", "0.1", meanwhile=Running.line
        )
    assert (outcome.status, outcome.err) == (130, "")


def test_a_topic_that_stays_on_its_host_is_measured_over_its_link(console: Console, source: Agent) -> None:
    source.advertise("readings", scope="host")
    with _publishing(source, "readings", bytes(100)):
        refused = console(
            "hz", f"{source.rep_endpoint}/readings", "-n", "1", "--every", "0.1", "--transport", "tcp"
        )
        outcome = console("hz", f"{source.rep_endpoint}/readings", "-n", "1", "--every", "0.1", "--json")
    assert refused.status == 1
    assert "transport='unix'" in refused.err
    assert outcome.json["messages"] >= 1
