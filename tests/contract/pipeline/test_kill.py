"""A pipeline in a process of its own: killed in the middle, and ended with Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc.testing.journals import Recording, write_journal

from tests.contract.rigs.tables import stored

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(280),
]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start ``pzc pipeline run`` on the test's journal; whatever it started is gone at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-m", "pzc", "pipeline", "run", "journal", "tables", "--json", *options]
        process = subprocess.Popen(
            [*arguments, "--master", "local[2]"],
            cwd=tmp_path,
            env=os.environ | {"PZC_KEY": "a key of the lab"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


def batch(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next batch that it tells of."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the pipeline has ended"
    return json.loads(line)


def test_a_pipeline_that_is_killed_loses_and_repeats_nothing(start: Start, tmp_path: Path) -> None:
    recording = Recording(published=20_000, lost=0.01, repeated=0.01, damaged=0.01)
    truth = write_journal(tmp_path / "journal", recording, rows_per_segment=2000)
    process = start("--max-files", "1")
    told = [batch(process), batch(process)]
    process.kill()
    process.wait(20)
    again = start("--once")
    rest, _ = again.communicate(timeout=200)
    assert again.returncode == 0
    found = stored(tmp_path / "tables", "notifications", "publisher", "epoch", "topic", "sequence")
    assert len(found) == len(set(found)) == truth.notifications
    assert sum(one["rows"] for one in [*told, *map(json.loads, rest.splitlines())]) <= truth.rows


def test_ctrl_c_ends_a_pipeline_that_follows(start: Start, tmp_path: Path) -> None:
    write_journal(tmp_path / "journal", Recording(published=100))
    process = start()
    assert batch(process)["rows"] > 0
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
