"""``pzc record`` and ``pzc replay``."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pzc import Agent
from pzc.testing import Running

from tests.contract.rigs.console import Console
from tests.contract.rigs.programs import PATIENCE


def test_what_was_recorded_until_an_interrupt_is_replayed(console: Console, tmp_path: Path) -> None:
    with Agent(name="source") as source:

        def meanwhile(running: Running) -> None:
            assert json.loads(running.line())["name"] == "recorder"
            for number in range(20):
                source.publish("v", number)
                source.publish("other", number)

        source_v = f"{source.rep_endpoint}/v"
        outcome = console("record", source_v, "--journal", str(tmp_path), "--json", meanwhile=meanwhile)
    assert (outcome.status, outcome.err) == (0, "")
    counts = outcome.rows[1]
    assert (counts["recorded"], counts["durable"]) == (20, 20)
    replayed = console("replay", str(tmp_path), "--speed", "max", "--json")
    told, counts = replayed.rows
    assert (told["name"], told["topics"]) == ("source", ["v"])
    assert (replayed.status, counts["published"], counts["refused"]) == (0, 20, 0)


def test_large_frames_that_wait_at_the_end_are_all_in_the_journal(console: Console, tmp_path: Path) -> None:
    frame = np.zeros(60_000_000, "u1")
    with Agent(name="camera") as camera:
        recorder = console.start("record", f"{camera.rep_endpoint}/f", "--journal", str(tmp_path), "--json")
        recorder.line()
        assert camera.wait_for_subscribers("f", 1, PATIENCE)
        for _ in range(6):
            camera.publish("f", frame)
        recorder.send_signal(signal.SIGINT)
        outcome = recorder.finish()
    counts = outcome.rows[-1]
    assert (outcome.status, counts["durable"]) == (0, 6)
    assert counts["left"] == {}


@pytest.mark.slow
def test_what_is_left_at_the_end_is_said_with_its_agent_and_fails(console: Console, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with Agent(name="source") as source:

        def meanwhile(running: Running) -> None:
            running.line()
            shutil.rmtree(journal)
            journal.write_text("a file where the journal was", encoding="utf-8")
            for number in range(3):
                source.publish("v", number)

        outcome = console("record", source.rep_endpoint, "--journal", str(journal), meanwhile=meanwhile)
    assert outcome.status == 1
    assert f"{source.rep_endpoint} keeps 3 notifications in its mailbox" in outcome.err


def test_a_second_recorder_of_a_name_is_refused_and_the_first_goes_on(
    console: Console, tmp_path: Path
) -> None:
    with Agent(name="source") as source:

        def meanwhile(running: Running) -> None:
            running.line()
            second = console.interpret("record", source.rep_endpoint, "--journal", str(tmp_path / "second"))
            said = second.communicate(timeout=PATIENCE)[1]
            assert second.returncode == 2
            assert "recorder is there already" in said
            assert "--name" in said
            source.publish("v", 1)
            running.kill(signal.SIGTERM)
            assert running.wait(PATIENCE)

        first = console("record", source.rep_endpoint, "--journal", str(tmp_path / "j"), meanwhile=meanwhile)
    assert first.status == 0
    assert "1 rows are in" in first.out


def test_a_replay_of_another_key_fails_and_publishes_nothing(console: Console, tmp_path: Path) -> None:
    with Agent(name="source") as source:

        def meanwhile(running: Running) -> None:
            running.line()
            source.publish("v", 1)
            running.kill(signal.SIGTERM)
            assert running.wait(PATIENCE)

        recorded = console("record", source.rep_endpoint, "--journal", str(tmp_path), meanwhile=meanwhile)
        assert recorded.status == 0
    console.environment["PZC_KEY"] = "the key of another laboratory"
    outcome = console("replay", str(tmp_path), "--speed", "max")
    assert outcome.status == 1
    assert "1 rows did not verify or decode" in outcome.err


def test_commands_start_without_the_packages_of_the_pipeline() -> None:
    found = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-m", "pzc", "ls", "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines()}
    assert "pzc.console.tables" in imported  # by the command itself
    assert not imported & {"pyspark", "pyarrow", "pandas"}
