"""``pzc watch``: what it prints, counts, and says of losses."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from pzc import Agent, Protocol, Proxy, close
from pzc.testing import Running

from tests.contract.rigs.console import Console
from tests.contract.rigs.programs import PATIENCE


@pytest.fixture
def source() -> Iterator[Agent]:
    with Agent(name="source") as agent:
        yield agent


def _until_it_ends(publish: Callable[[], object]) -> Callable[[Running], None]:
    """What is published while a subscription begins may be missed, so publish again and again."""

    def meanwhile(running: Running) -> None:
        while not running.wait(0.01):
            publish()

    return meanwhile


def test_notifications_are_lines_with_time_sequence_and_content(console: Console, source: Agent) -> None:
    publish = _until_it_ends(lambda: source.publish("readings", {"text": "two\nlines"}))
    outcome = console("watch", f"{source.rep_endpoint}/readings", "--count", "2", meanwhile=publish)
    assert (outcome.status, outcome.err) == (0, "")
    rows = [line.split("  ") for line in outcome.out.splitlines()]
    assert [row[2] for row in rows] == ["{'text': 'two\\nlines'}"] * 2
    assert int(rows[1][1]) == int(rows[0][1]) + 1
    assert all(abs(datetime.fromisoformat(row[0]).timestamp() - time.time()) < 60 for row in rows)


def test_a_star_means_every_topic_and_names_it(console: Console, source: Agent) -> None:
    def publish() -> None:
        source.publish("readings", 1)
        source.publish("other.topic", 2, key="left")

    outcome = console("watch", f"{source.rep_endpoint}/*", "--count", "2", meanwhile=_until_it_ends(publish))
    rows = [line.split("  ")[1:] for line in outcome.out.splitlines()]
    assert sorted((*row[:-2], row[-1]) for row in rows) == [("other.topic", "[left]", "2"), ("readings", "1")]


def test_json_is_one_object_per_line(console: Console, source: Agent) -> None:
    publish = _until_it_ends(lambda: source.publish("readings", (float("nan"), b"\xff")))
    rows = console(
        "watch", f"{source.rep_endpoint}/readings", "--count", "2", "--json", meanwhile=publish
    ).rows
    assert [(row["publisher"], row["topic"]) for row in rows] == [(source.agent_id, "readings")] * 2
    assert rows[0]["content"] == ["NaN", {"type": "bytes", "size": 1, "base64": "/w=="}]


def test_too_few_in_time_are_an_error(console: Console, source: Agent) -> None:
    arguments = f"{source.rep_endpoint}/readings", "--count", "1000000", "--timeout", "0.3"
    outcome = console("watch", *arguments, meanwhile=_until_it_ends(lambda: source.publish("readings", 1)))
    lines = len(outcome.out.splitlines())
    assert outcome.status == 1
    assert (
        outcome.err
        == f"pzc: ReceiveTimeout: {lines} of 1000000 notifications of readings came within 0.3 s\n"
    )


def test_without_count_the_end_of_the_time_is_no_error(console: Console, source: Agent) -> None:
    outcome = console("watch", f"{source.rep_endpoint}/readings", "--timeout", "0.3")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def test_an_interrupt_is_quiet_with_status_130(console: Console, source: Agent) -> None:
    def meanwhile(running: Running) -> None:
        source.wait_for_subscribers("readings", timeout=PATIENCE)
        source.publish("readings", 1)
        running.line()

    outcome = console("watch", f"{source.rep_endpoint}/readings", meanwhile=meanwhile)
    assert (outcome.status, outcome.err) == (130, "")


def test_a_reader_that_leaves_is_no_traceback(console: Console, source: Agent) -> None:
    process = console.interpret("watch", f"{source.rep_endpoint}/readings")
    assert process.stdout is not None
    assert process.stderr is not None
    assert source.wait_for_subscribers("readings", timeout=PATIENCE)
    source.publish("readings", 1)
    process.stdout.readline()
    process.stdout.close()
    source.publish("readings", 2)
    process.wait(PATIENCE)
    assert (process.returncode, process.stderr.read()) == (141, "")


def test_a_signal_of_a_served_object_is_watched(either: Console) -> None:
    psu = Proxy(either.endpoint, protocol=Protocol(either.environment.get("PZC_KEY") or ""))
    voltages = itertools.cycle((1, 2))
    try:
        change = _until_it_ends(lambda: setattr(psu, "voltage", next(voltages)))
        outcome = either("watch", "psu/changed", "--count", "1", "--timeout", "30", meanwhile=change)
    finally:
        close(psu)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.endswith((" (1.0, 2.0, None)\n", " (2.0, 1.0, None)\n", " (1.0, 0.0, None)\n"))


def test_a_topic_that_is_no_signal_is_told(bench: Console) -> None:
    def meanwhile(running: Running) -> None:
        while not running.err:
            assert not running.wait(0.01)

    outcome = bench("watch", "psu/voltage", meanwhile=meanwhile)
    assert outcome.err.startswith("pzc: psu has no signal 'voltage' (it has: changed)")


def test_a_watch_begins_while_a_call_runs(console: Console) -> None:
    process, endpoint = console.serve()
    console.start("call", f"{endpoint}.wait")
    assert process.line() == "waiting\n"
    outcome = console("watch", f"{endpoint}/changed", "--timeout", "0.3")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")
