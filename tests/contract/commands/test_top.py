"""``pzc top``: what it shows of agents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, Protocol, Proxy, block, close, lock
from pzc.testing import Running

from tests.contract.rigs.console import Console
from tests.contract.rigs.programs import PATIENCE


@pytest.fixture
def source() -> Iterator[Agent]:
    with Agent(name="source") as agent:
        yield agent


def test_topics_links_and_leases_are_told_as_json(console: Console, source: Agent) -> None:
    with Agent(name="reader") as reader:
        subscription = reader.subscribe(source.rep_endpoint, "readings", policy=block(), transport="unix")
        for number in range(3):
            source.publish("readings", number)
            subscription.recv(PATIENCE)
        outcome = console("top", source.rep_endpoint, "-n", "2", "--every", "0.1", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    first, second = (json.loads(line) for line in outcome.out.splitlines())
    assert (second["agent"], second["name"]) == (source.rep_endpoint, "source")
    assert second["topics"]["readings"]["published"] == 3
    assert second["topics"]["readings"]["dropped"] == 0
    (link,) = second["links"]
    assert (link["transport"], link["sent"], link["leases"]) == ("unix", 3, 0)
    assert first["calls"]["rate_hz"] == 0.0
    assert second["calls"]["count"] >= first["calls"]["count"]


def test_all_known_agents_are_shown_as_text(bench: Console) -> None:
    outcome = bench("top", "--count", "1")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("psu tcp://127.0.0.1:")
    assert "\x1b" not in outcome.out


def test_who_holds_the_lock_is_shown(bench: Console) -> None:
    psu = Proxy(bench.endpoint, protocol=Protocol(bench.environment["PZC_KEY"] or ""))
    try:
        with lock(psu, reason="calibration"):
            outcome = bench("top", "psu", "--count", "1", "--json")
    finally:
        close(psu)
    assert outcome.json["lock"]["reason"] == "calibration"


def test_an_agent_that_is_not_there_is_told_and_the_others_are_shown(console: Console, source: Agent) -> None:
    outcome = console(
        "top", "tcp://127.0.0.1:9", source.rep_endpoint, "-n", "1", "--timeout", "0.3", "--json"
    )
    missing, there = (json.loads(line) for line in outcome.out.splitlines())
    assert "error" in missing
    assert there["name"] == "source"
    assert outcome.status == 1
    assert outcome.err.startswith("pzc: PeerLost: no answer from tcp://127.0.0.1:9\n")


def test_nobody_to_ask_is_a_wrong_command_line(console: Console) -> None:
    outcome = console("top")
    assert outcome.status == 2
    assert "PZC_PEERS" in outcome.err


def test_an_interrupt_is_quiet_with_status_130(console: Console, source: Agent) -> None:
    outcome = console("top", source.rep_endpoint, meanwhile=Running.line)
    assert (outcome.status, outcome.err) == (130, "")


def test_a_count_prints_text_in_a_terminal_too(console: Console, source: Agent) -> None:
    ours, theirs = pytest.importorskip("pty").openpty()
    try:
        program = console.start("top", source.rep_endpoint, "-n", "1", stdout=os.ttyname(theirs))
        assert program.wait()
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "\x1b" not in shown
    assert source.rep_endpoint in shown


def test_in_a_terminal_one_goes_down_to_a_live_value_and_ends_with_q(console: Console, source: Agent) -> None:
    pexpect: Any = pytest.importorskip("pexpect")
    stop = threading.Event()

    def publish() -> None:
        number = 0
        while not stop.wait(0.05):
            number += 1
            source.publish("readings", number / 10)

    publishing = threading.Thread(target=publish)
    publishing.start()
    environment = {**console.variables(), "TERM": "xterm-256color"}
    terminal: Any = pexpect.spawn(
        sys.executable, ["-P", "-m", "pzc", "top", source.rep_endpoint],
        env=environment, dimensions=(30, 110), timeout=PATIENCE, cwd=str(console.folder),
    )  # fmt: skip
    try:
        terminal.expect("all is well")
        terminal.send("\r")
        terminal.expect("readings")
        terminal.send("\r")
        terminal.expect("values,")
        terminal.send("q")
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert terminal.exitstatus == 0
    finally:
        stop.set()
        publishing.join()
        terminal.close(force=True)


def test_a_reader_that_leaves_is_no_traceback(console: Console, source: Agent) -> None:
    process = console.interpret("top", source.rep_endpoint)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.fail("it went on without a reader")
    assert (process.returncode, process.stderr.read()) == (141, "")
