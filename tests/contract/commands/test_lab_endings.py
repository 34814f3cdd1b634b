"""Why a process of a lab does not run, as ``pzc status`` says it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.rigs.labs import Bench

pytestmark = pytest.mark.needs("posix")

CHATTY = """
class Supply:
    def __init__(self):
        print("connected", flush=True)
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    (tmp_path / "chatty.py").write_text(CHATTY, encoding="utf-8")
    try:
        yield made
    finally:
        made.run("down")


def test_the_reason_of_a_killed_process_is_its_signal_and_not_what_it_wrote_before(bench: Bench) -> None:
    bench.write('[server.psu]\nobject = "chatty:Supply"\nrestart = "never"\n')
    bench.run("up")
    os.kill(bench.row("psu")["pid"], signal.SIGKILL)
    assert bench.await_row("psu", lambda row: row["state"] == "failed")["does"] == "ended by SIGKILL"
    assert "ended by SIGKILL" in bench.run("logs", "psu").out
