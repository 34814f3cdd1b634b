"""``pzc record`` and ``pzc replay`` as processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pzc import Agent
from pzc.console.recording import split_source
from pzc.console.targets import UsageError

from tests.console.command import Console


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("psu", ("psu", "*")),
        ("psu:v", ("psu", "v")),
        ("cam*:frames:left", ("cam*", "frames:left")),
        ("tcp://127.0.0.1:5555", ("tcp://127.0.0.1:5555", "*")),
        ("tcp://[::1]:5555:v", ("tcp://[::1]:5555", "v")),
        ("ipc:///run/psu.sock:v", ("ipc:///run/psu.sock", "v")),
    ],
)
def test_a_source_is_an_agent_and_perhaps_a_topic(text: str, source: tuple[str, str]) -> None:
    assert split_source(text) == source


@pytest.mark.parametrize("text", ["", ":v", "psu:", "tcp://host", "udp://host:1"])
def test_a_source_without_an_agent_or_topic_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not N"):
        split_source(text)


def test_what_was_recorded_until_an_interrupt_is_replayed(pzc: Console, tmp_path: Path) -> None:
    with Agent(name="source") as source:
        recorder = pzc.start("record", f"{source.rep_endpoint}:v", "--journal", str(tmp_path), "--json")
        assert recorder.stdout is not None
        assert json.loads(recorder.stdout.readline())["name"] == "recorder"
        for number in range(20):
            source.publish("v", number)
            source.publish("other", number)
        recorder.send_signal(signal.SIGINT)
        outcome = pzc.finish(recorder)
    assert (outcome.status, outcome.err) == (0, "")
    assert (outcome.json["recorded"], outcome.json["durable"]) == (20, 20)
    replayed = pzc("replay", str(tmp_path), "--speed", "max", "--json")
    told, counts = map(json.loads, replayed.out.splitlines())
    assert (told["name"], told["topics"]) == ("source", ["v"])
    assert (replayed.status, counts["published"], counts["refused"]) == (0, 20, 0)


def test_a_replay_of_another_key_fails_and_publishes_nothing(pzc: Console, tmp_path: Path) -> None:
    with Agent(name="source") as source:
        recorder = pzc.start("record", source.rep_endpoint, "--journal", str(tmp_path))
        assert recorder.stdout is not None
        recorder.stdout.readline()
        source.publish("v", 1)
        recorder.send_signal(signal.SIGTERM)
        assert pzc.finish(recorder).status == 0
    pzc.environment["PZC_KEY"] = "another"
    outcome = pzc("replay", str(tmp_path), "--speed", "max")
    assert outcome.status == 1
    assert "1 rows did not verify or decode" in outcome.err


def test_commands_start_without_the_packages_of_the_pipeline() -> None:
    code = "import sys, pzc.console.main; print([n for n in ('pyspark', 'pyarrow', 'pandas') if n in sys.modules])"
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
