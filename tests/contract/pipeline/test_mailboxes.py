"""``pzc pipeline follow``: tables of what agents publish, once each, and the journal beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pzc
from pzc import Agent, Protocol

from tests.contract.rigs import environments
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Workers
from tests.contract.rigs.tables import run, stored
from tests.contract.rigs.workers import working

own_environment = environments.own_environment

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(180),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

RUN = "pipeline", "follow"


@pytest.fixture
def source() -> Iterator[Agent]:
    with Agent(name="source", protocol=Protocol(KEY)) as agent:
        yield agent


def waiting(source: Agent) -> int:
    """What the mailboxes of a publisher hold."""
    return sum(each["waiting"] for each in source.statistics()["mailboxes"])


def once(source: Agent, folder: Path, *arguments: str, key: str = KEY) -> dict[str, Any] | None:
    """Take what is there; what the last batch told."""
    outcome = run(folder, *RUN, source.rep_endpoint, "tables", "--once", "--json", *arguments, key=key)
    assert outcome.status == 0, outcome.err
    return outcome.rows[-1] if outcome.rows else None


def test_what_an_agent_publishes_is_in_the_tables_once_and_acknowledged(
    source: Agent, tmp_path: Path
) -> None:
    assert once(source, tmp_path) is None  # from here on its mailbox is kept
    for number in range(300):
        source.publish("v", float(number))
    assert waiting(source) == 300
    told = once(source, tmp_path)
    assert told is not None
    assert (told["rows"], told["missing"]) == (300, 0)
    assert once(source, tmp_path) is None
    wait_until(lambda: waiting(source) == 0)
    rows = stored(tmp_path / "tables", "notifications", "topic", "sequence", "value_double")
    assert sorted(rows) == [("v", number + 1, float(number)) for number in range(300)]


def test_a_large_array_that_was_followed_is_read_out_of_the_journal_beside_the_tables(
    source: Agent, tmp_path: Path
) -> None:
    once(source, tmp_path)
    sent = np.arange(300_000, dtype=np.float64)
    source.publish("scan", sent)
    once(source, tmp_path)
    tables = pzc.tables(tmp_path / "tables")
    (row,) = tables["notifications"].to_table().to_pylist()
    assert np.array_equal(tables.array(row), sent)


def test_a_day_that_was_followed_is_made_again_from_the_journal_that_was_named(
    source: Agent, tmp_path: Path
) -> None:
    once(source, tmp_path, "--journal", "kept")
    source.publish("v", 1.0)
    once(source, tmp_path, "--journal", "kept")
    days = "--from", "2000-01-01", "--to", "2100-01-01"
    outcome = run(tmp_path, "pipeline", "backfill", "kept", "again", *days, "--json", key=KEY)
    assert outcome.status == 0, outcome.err
    assert stored(tmp_path / "again", "notifications", "value_double") == [(1.0,)]


@pytest.mark.slow
def test_limits_raise_alarms_about_what_mailboxes_held(source: Agent, tmp_path: Path) -> None:
    once(source, tmp_path)
    (tmp_path / "limits.toml").write_text('[limits.high]\nwhere = "value_double >= 1"\n', encoding="utf-8")
    source.publish("v", 0.0)
    once(source, tmp_path)
    for number in range(3):
        source.publish("v", float(number))
    told = once(source, tmp_path, "--limits", "limits.toml")
    assert told is not None
    assert (told["notifications"], told["alarms"], told["missing"]) == (3, 2, 0)
    alarms = stored(tmp_path / "tables", "alarms", "rule", "value")
    assert sorted(alarms) == [("high", 1.0), ("high", 2.0)]


@pytest.mark.slow
def test_two_agents_are_read_by_their_names_in_one_run(
    source: Agent, workers: Workers, tmp_path: Path
) -> None:
    hand = workers.begin(working)
    both = f"{source.rep_endpoint},{hand.ask('endpoints')[0]}"

    def take() -> list[Any]:
        outcome = run(tmp_path, *RUN, both, "tables", "--once", "--topics", "v", "--json", key=KEY)
        assert outcome.status == 0, outcome.err
        return outcome.rows

    take()
    for number in range(5):
        source.publish("v", float(number))
        source.publish("w", float(number))
    hand.ask("publish", "v", [10] * 7)
    assert sum(each["rows"] for each in take()) == 12
    assert {topic for (topic,) in stored(tmp_path / "tables", "notifications", "topic")} == {"v"}
