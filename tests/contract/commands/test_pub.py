"""``pzc pub``: what scripts publish arrives, and who hears nothing is told."""

from __future__ import annotations

import queue
import subprocess
from collections.abc import Iterator

import pytest

from pzc import Agent, Notification, block
from pzc.testing import command

from tests.contract.rigs.console import Console
from tests.contract.rigs.programs import PATIENCE

Heard = queue.Queue[Notification]


@pytest.fixture
def heard() -> Iterator[Heard]:
    came: Heard = queue.Queue()
    with Agent(name="reader") as reader:
        reader.subscribe("notes", "shift", came.put, policy=block())
        yield came


def contents(heard: Heard, count: int) -> list[object]:
    return [heard.get(timeout=PATIENCE).content for _ in range(count)]


def test_values_are_literals_or_text_and_arrive_in_order(heard: Heard) -> None:
    outcome = command("pub", "notes/shift", "sample changed", "[1, 2]", "-3.5", "--key", "left")
    assert (outcome.status, outcome.out) == (0, "")
    first = heard.get(timeout=PATIENCE)
    assert (first.name, first.topic, first.key, first.content) == ("notes", "shift", "left", "sample changed")
    assert contents(heard, 2) == [[1, 2], -3.5]


def test_all_values_are_said_as_often_as_wished(heard: Heard) -> None:
    outcome = command("pub", "notes/shift", "1", "2", "--count", "2", "--every", "0.01", "--json")
    assert outcome.json == {"name": "notes", "topic": "shift", "published": 4}
    assert contents(heard, 4) == [1, 2, 1, 2]


def test_each_line_of_the_input_is_a_value(heard: Heard, console: Console) -> None:
    process = console.interpret("pub", "notes/shift", stdin=subprocess.PIPE)
    process.communicate("one line\n2\n", timeout=PATIENCE)
    assert process.returncode == 0
    assert contents(heard, 2) == ["one line", 2]


def test_the_name_of_an_agent_that_is_there_is_refused() -> None:
    with Agent(name="psu") as psu:
        outcome = command("pub", "psu/voltage", "1")
        assert outcome.status == 2
        assert "psu is there already" in outcome.err
        with Agent() as asking:
            assert asking.resolve("psu") == psu.rep_endpoint


def test_nobody_who_subscribes_is_an_error() -> None:
    outcome = command("pub", "notes/shift", "1", "--wait", "0.1")
    assert outcome.status == 1
    assert "waiting for a subscriber of notes/shift, for 0.1 s" in outcome.err
    assert "nobody subscribed to notes/shift within 0.1 s" in outcome.err


@pytest.mark.parametrize("target", ["notes", "notes.shift", "note*/shift", "notes/*", "tcp://127.0.0.1:5/x"])
def test_what_is_no_name_and_topic_is_a_usage_error(target: str) -> None:
    outcome = command("pub", target, "1")
    assert outcome.status == 2
    assert "/" in outcome.err


def test_help_shows_how_lines_are_published(console: Console) -> None:
    assert "each line" in console("pub", "--help").out
