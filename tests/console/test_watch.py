"""``pzc watch``: what it prints, counts, and says of losses."""

from __future__ import annotations

import itertools
import json
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime

import pytest

from pzc import Agent, Notification
from pzc.console.watch import Printer

from tests.console.command import Console


@pytest.fixture
def source() -> Iterator[Agent]:
    with Agent(name="source") as agent:
        yield agent


Publish = Callable[[], object]


def _until_it_ends(process: subprocess.Popen[str], publish: Publish) -> None:
    """What is published while a subscription begins may be missed, so publish again and again."""
    while process.poll() is None:
        publish()
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)


def _first_line(process: subprocess.Popen[str], publish: Publish) -> str:
    assert process.stdout is not None
    while not select.select([process.stdout], [], [], 0.05)[0]:
        publish()
    return process.stdout.readline()


def test_notifications_are_lines_with_time_sequence_and_content(pzc: Console, source: Agent) -> None:
    process = pzc.start("watch", f"{source.rep_endpoint}.readings", "--count", "2")
    _until_it_ends(process, lambda: source.publish("readings", {"text": "two\nlines"}))
    outcome = pzc.finish(process)
    assert (outcome.status, outcome.err) == (0, "")
    rows = [line.split("  ") for line in outcome.out.splitlines()]
    assert [row[2] for row in rows] == ["{'text': 'two\\nlines'}"] * 2
    assert int(rows[1][1]) == int(rows[0][1]) + 1
    assert all(abs(datetime.fromisoformat(row[0]).timestamp() - time.time()) < 60 for row in rows)


def test_a_star_means_every_topic_and_names_it(pzc: Console, source: Agent) -> None:
    def publish() -> None:
        source.publish("readings", 1)
        source.publish("other.topic", 2, key="left")

    process = pzc.start("watch", f"{source.rep_endpoint}.*", "--count", "2")
    _until_it_ends(process, publish)
    rows = [line.split("  ")[1:] for line in pzc.finish(process).out.splitlines()]
    assert sorted((*row[:-2], row[-1]) for row in rows) == [("other.topic", "[left]", "2"), ("readings", "1")]


def test_json_is_one_object_per_line(pzc: Console, source: Agent) -> None:
    process = pzc.start("watch", f"{source.rep_endpoint}.readings", "--count", "2", "--json")
    _until_it_ends(process, lambda: source.publish("readings", (float("nan"), b"\xff")))
    rows = [json.loads(line, parse_constant=pytest.fail) for line in pzc.finish(process).out.splitlines()]
    assert [(row["publisher"], row["topic"]) for row in rows] == [(source.agent_id, "readings")] * 2
    assert rows[0]["content"] == ["NaN", {"type": "bytes", "size": 1, "base64": "/w=="}]


def test_too_few_in_time_are_an_error(pzc: Console, source: Agent) -> None:
    process = pzc.start("watch", f"{source.rep_endpoint}.readings", "--count", "1000000", "--timeout", "2")
    _until_it_ends(process, lambda: source.publish("readings", 1))
    outcome = pzc.finish(process)
    lines = len(outcome.out.splitlines())
    assert outcome.status == 1
    assert (
        outcome.err == f"pzc: ReceiveTimeout: {lines} of 1000000 notifications of readings came within 2 s\n"
    )


def test_without_count_the_end_of_the_time_is_no_error(pzc: Console, source: Agent) -> None:
    outcome = pzc("watch", f"{source.rep_endpoint}.readings", "--timeout", "1")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def test_an_interrupt_is_quiet_with_status_130(pzc: Console, source: Agent) -> None:
    process = pzc.start("watch", f"{source.rep_endpoint}.readings")
    _first_line(process, lambda: source.publish("readings", 1))
    process.send_signal(signal.SIGINT)
    outcome = pzc.finish(process)
    assert (outcome.status, outcome.err) == (130, "")


def test_a_reader_that_leaves_is_no_traceback(pzc: Console, source: Agent) -> None:
    process = pzc.start("watch", f"{source.rep_endpoint}.readings")
    _first_line(process, lambda: source.publish("readings", 1))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    _until_it_ends(process, lambda: source.publish("readings", 2))
    assert (process.returncode, process.stderr.read()) == (141, "")


def test_a_signal_of_a_served_object_is_watched(either: Console) -> None:
    process = either.start("watch", "psu.changed", "--count", "1", "--timeout", "30")
    voltages = itertools.cycle(("1", "2"))
    _until_it_ends(process, lambda: either("set", "psu.voltage", next(voltages)))
    outcome = either.finish(process)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.endswith((" (1.0, 2.0, None)\n", " (2.0, 1.0, None)\n", " (1.0, 0.0, None)\n"))


def test_a_topic_that_is_no_signal_is_told(bench: Console) -> None:
    outcome = bench("watch", "psu.voltage", "--timeout", "3")
    assert outcome.err.startswith("pzc: psu has no signal 'voltage' (it has: changed)")


def test_a_watch_begins_while_a_call_runs(pzc: Console) -> None:
    process, endpoint = pzc.serve()
    pzc.start("call", f"{endpoint}.wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    outcome = pzc("watch", f"{endpoint}.changed", "--timeout", "1")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def _notification(sequence: int, epoch: int = 7) -> Notification:
    return Notification("ab" * 16, "source", "readings", "", sequence, epoch, 0.0, 0.0, None)


def _show(printer: Printer, *notifications: Notification) -> None:
    for notification in notifications:
        printer.show(notification)


def test_a_gap_stands_between_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Printer(False, False), _notification(1), _notification(4))
    assert capsys.readouterr().out.splitlines()[1] == "gap: 2 of readings lost, 2 to 3"


def test_a_gap_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer(True, False)
    _show(printer, _notification(1), _notification(4))
    gap = json.loads(capsys.readouterr().out.splitlines()[1])
    assert gap == {
        "topic": "readings", "epoch": 7, "gap": {"first": 2, "last": 3, "count": 2, "restarted": False},
    }  # fmt: skip
    assert printer.lost == 2


def test_a_restart_of_the_publisher_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Printer(False, False), _notification(5), _notification(1, epoch=8))
    assert capsys.readouterr().out.splitlines()[1] == "gap: the publisher of readings was restarted"


def test_a_dialect_without_sequence_has_no_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Printer(False, False), _notification(0, epoch=0), _notification(0, epoch=0))
    assert "gap" not in capsys.readouterr().out
