"""``pzc top``: what it shows of agents."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, Proxy, block, close, lock
from pzc.console.top import lines_of

from tests.console.command import PATIENCE, Console


@pytest.fixture
def source() -> Iterator[Agent]:
    with Agent(name="source") as agent:
        yield agent


def test_topics_links_and_leases_are_told_as_json(pzc: Console, source: Agent) -> None:
    with Agent(name="reader") as reader:
        subscription = reader.subscribe(source.rep_endpoint, "readings", policy=block(), transport="unix")
        for number in range(3):
            source.publish("readings", number)
            subscription.recv(PATIENCE)
        outcome = pzc("top", source.rep_endpoint, "-n", "2", "--json")
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


def test_who_holds_the_lock_is_shown(bench: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_KEY", bench.environment["PZC_KEY"])
    psu = Proxy(bench.environment["PZC_PEERS"].partition("=")[2])
    try:
        with lock(psu, reason="calibration"):
            outcome = bench("top", "psu", "--count", "1", "--json")
    finally:
        close(psu)
    assert outcome.json["lock"]["reason"] == "calibration"


def test_an_agent_that_is_not_there_is_told_and_the_others_are_shown(pzc: Console, source: Agent) -> None:
    outcome = pzc("top", "tcp://127.0.0.1:9", source.rep_endpoint, "-n", "1", "--timeout", "1", "--json")
    missing, there = (json.loads(line) for line in outcome.out.splitlines())
    assert "error" in missing
    assert there["name"] == "source"
    assert outcome.status == 1
    assert outcome.err.startswith("pzc: PeerLost: tcp://127.0.0.1:9: ")


def test_nobody_to_ask_is_a_wrong_command_line(pzc: Console) -> None:
    outcome = pzc("top")
    assert outcome.status == 2
    assert "PZC_PEERS" in outcome.err


def test_an_interrupt_is_quiet_with_status_130(pzc: Console, source: Agent) -> None:
    process = pzc.start("top", source.rep_endpoint)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    outcome = pzc.finish(process)
    assert (outcome.status, outcome.err) == (130, "")


def test_a_terminal_is_drawn_anew(pzc: Console, source: Agent) -> None:
    ours, theirs = pty.openpty()
    try:
        process = pzc.start("top", source.rep_endpoint, "-n", "1", stdout=theirs)
        process.wait(PATIENCE)
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert shown.startswith("\x1b[H\x1b[2J")
    assert source.rep_endpoint in shown


def test_help_has_an_example(pzc: Console) -> None:
    outcome = pzc("top", "--help")
    assert (outcome.status, "example:\n  pzc top " in outcome.out) == (0, True)


_AGE = {"measured": 1, "min": 0.001, "mean": 0.001, "max": 0.001, "p99": 0.001}
_TOLD: dict[str, Any] = {
    "agent": "psu",
    "name": "psu",
    "endpoint": "tcp://127.0.0.1:5555",
    "calls": {"count": 12, "rate_hz": 3.0, "running": 1, "waiting": 2},
    "lock": {"owner": "alice", "waiting": 1},
    "topics": {
        "t": {"published": 5, "rate_hz": 1.5, "bytes_per_s": 2000.0, "dropped": 1, "subscribers": 2}
    },
    "links": [
        {
            "agent": "ab" * 16, "transport": "unix", "state": "alive", "sent": 4, "rate_hz": 2.0,
            "unacknowledged": 1, "waiting": 2, "leases": 3, "age": _AGE,
        }
    ],
    "subscriptions": [
        {
            "topic": "u", "publisher": "cd" * 16, "transport": "tcp", "received": 7, "rate_hz": 0.5,
            "dropped": 0, "age": _AGE,
        }
    ],
}  # fmt: skip


def test_an_agent_as_text() -> None:
    assert lines_of(_TOLD) == [
        "psu tcp://127.0.0.1:5555  calls 12 (3.0/s), 1 running, 2 waiting  lock held by alice, 1 waiting",
        "  topic  published  rate/s  bytes/s  dropped  readers",
        "  t              5     1.5  2.00 kB        1        2",
        "  link to   transport  state  sent  rate/s  unread  leases  p99 ms",
        "  abababab       unix  alive     4     2.0       3       3     1.0",
        "  reads        of  transport  received  rate/s  dropped  p99 ms",
        "  u      cdcdcdcd        tcp         7     0.5        0     1.0",
    ]


def test_a_free_lock_and_empty_tables_are_short() -> None:
    told = {**_TOLD, "lock": None, "topics": {}, "links": [], "subscriptions": []}
    assert lines_of(told) == ["psu tcp://127.0.0.1:5555  calls 12 (3.0/s), 1 running, 2 waiting  lock free"]


def test_a_reader_that_leaves_is_no_traceback(pzc: Console, source: Agent) -> None:
    process = pzc.start("top", source.rep_endpoint)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.fail("it went on without a reader")
    assert (process.returncode, process.stderr.read()) == (141, "")
