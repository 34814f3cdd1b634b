"""Where recordings begin, and at which pace they come back; what is expected to fail is not built yet."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pzc
from pzc import Agent, Protocol
from pzc.testing.journals import Recording, write_journal

from tests.contract.rigs.console import Console
from tests.contract.rigs.processes import Forge
from tests.contract.rigs.programs import PATIENCE, Program
from tests.contract.rigs.tables import KEY


@pytest.fixture
def console(tmp_path: Path, forge: Forge) -> Iterator[Console]:
    console = Console(tmp_path, forge)
    console.environment["PZC_KEY"] = KEY
    yield console
    console.close()


def recorder(console: Console, pattern: str) -> Program:
    """A recorder that has said that it runs."""
    program = console.start("record", pattern, "--journal", "journal", "--json")
    assert program.line()
    return program


def ended(console: Console, program: Program) -> Any:
    """The tables of what it has recorded."""
    program.send_signal(signal.SIGINT)
    assert program.finish().status == 0
    made = console("pipeline", "run", "journal", "tables", "--once")
    assert made.status == 0, made.err
    return pzc.tables(console.folder / "tables")


@pytest.mark.xfail(strict=True, reason="numbers before the first that was recorded are in no gap")
def test_what_an_agent_published_before_it_was_met_is_recorded_or_missing(console: Console) -> None:
    recording = recorder(console, "run*")
    with Agent(name="run1", protocol=Protocol(KEY)) as agent:
        for number in range(5):
            agent.publish("m", number)
        assert agent.wait_for_subscribers("m", 1, PATIENCE)
        agent.publish("m", 5)
        tables = ended(console, recording)
    missing = sum(tables["gaps"].to_table().column("count").to_pylist())
    assert tables["notifications"].count_rows() + missing == 6


@pytest.mark.xfail(strict=True, reason="a recorder asks for no values that were kept before it came")
def test_a_value_that_was_kept_before_the_recording_is_in_it(console: Console) -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        agent.advertise("setpoint", keep_last=True)
        agent.publish("setpoint", 4.2)
        tables = ended(console, recorder(console, agent.rep_endpoint))
    assert tables["notifications"].to_table().column("value_double").to_pylist() == [4.2]


@pytest.mark.xfail(strict=True, reason="what lies behind a clock that was set back is published at once")
def test_a_replay_keeps_its_pace_behind_a_clock_that_was_set_back(console: Console) -> None:
    some = Recording(
        published=16,
        agents=1,
        topics=("v",),
        restarts=0,
        lost=0,
        repeated=0,
        damaged=0,
        rate=4,
        clock_step=-20,
    )
    write_journal(console.folder / "journal", some)
    told = console("replay", "journal", "--json")
    assert json.loads(told.out.splitlines()[-1])["seconds"] > 3.5
