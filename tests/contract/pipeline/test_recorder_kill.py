"""A recorder is killed at random moments: what its mailbox held meanwhile is in the journal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from pzc import Agent

from tests.contract.rigs.processes import Forge
from tests.contract.rigs.programs import Program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

KILLS = 12
LONGEST_LIFE = 1.0
"""Seconds between the start of a recorder and its kill, at most."""


@contextmanager
def publishing(source: Agent, numbers: list[int]) -> Iterator[None]:
    """Publish again and again meanwhile; the numbers of what was published."""
    end = threading.Event()

    def publish() -> None:
        while not end.wait(0.002):
            numbers.append(source.publish("v", len(numbers)))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def recorded(journal: Path) -> list[int]:
    """Sequence numbers of all rows."""
    found: list[int] = []
    for path in sorted(journal.glob("segment-*.parquet")):
        found += pq.read_table(path, columns=["sequence"]).column("sequence").to_pylist()
    return found


def test_nothing_is_missing_after_a_dozen_kills(forge: Forge, tmp_path: Path) -> None:
    dice, pause, numbers = Random(7), threading.Event(), list[int]()
    journal = tmp_path / "journal"
    with Agent(name="source") as source:
        arguments = "record", f"{source.rep_endpoint}/v", "--journal", str(journal), "--age", "0.1", "--json"

        def start() -> Program:
            program = Program(forge, arguments, tmp_path, dict(os.environ))
            assert program.line()
            return program

        recorder = start()
        try:
            with publishing(source, numbers):
                for _ in range(KILLS):
                    pause.wait(dice.uniform(0.0, LONGEST_LIFE))
                    recorder.close()
                    recorder = start()
                pause.wait(LONGEST_LIFE)
            recorder.send_signal(signal.SIGINT)
            outcome = recorder.finish()
        finally:
            recorder.close()
    assert (outcome.status, outcome.err) == (0, "")
    found = recorded(journal)
    assert found == list(range(found[0], numbers[-1] + 1))
