"""A recorder that is killed with SIGKILL: real processes, real files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.schema import segments

from tests.pipeline.conftest import a_row

pytestmark = pytest.mark.slow

WRITER = """
import os, sys
from pzc import Notification
from pzc.pipeline.recording.journal import Journal

directory, stop_at = sys.argv[1], int(sys.argv[2])
journal = Journal(directory, recorder="r")
if stop_at:
    real, calls = os.fsync, 0
    def fsync(descriptor):
        global calls
        calls += 1
        if calls == stop_at:
            print("stopped", flush=True)
            sys.stdin.read()
        real(descriptor)
    os.fsync = fsync
sequence = 0
while True:
    for _ in range(20):
        frames = b"h", b"s", os.urandom(500), b"m", b"g"
        journal.take(Notification("a", "", "t", "", sequence, 0, 1.7e9, 1.7e9, None, frames=frames))
        journal.tick()
        sequence += 1
    print(journal.commit(), flush=True)
"""

Start = Callable[[int], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a writer; it stops before its n-th fsync and stays there, for n > 0."""
    running: list[subprocess.Popen[str]] = []

    def run(stop_at: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WRITER, str(tmp_path / "journal"), str(stop_at)]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()


def kill_when_it_stopped(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line == "stopped\n":
            break
    process.kill()
    process.wait()


def offsets(directory: Path) -> list[int]:
    return [n for _, path in segments(directory) for n in pq.read_table(path)["offset"].to_pylist()]


# A segment takes two calls of fsync: the file, before its rename, and the folder after it.
BEFORE_THE_RENAME = 5
AFTER_THE_RENAME = 6


def test_a_kill_before_the_rename_leaves_the_earlier_segments_readable(tmp_path: Path, start: Start) -> None:
    kill_when_it_stopped(start(BEFORE_THE_RENAME))
    assert offsets(tmp_path / "journal") == list(range(40))


def test_a_kill_before_the_rename_leaves_no_visible_part(tmp_path: Path, start: Start) -> None:
    kill_when_it_stopped(start(BEFORE_THE_RENAME))
    assert [path.suffix for path in (tmp_path / "journal").glob("[!.]*")] == [".parquet", ".parquet"]


def test_a_kill_before_the_rename_did_interrupt_a_segment(tmp_path: Path, start: Start) -> None:
    kill_when_it_stopped(start(BEFORE_THE_RENAME))
    (part,) = (tmp_path / "journal").glob(".segment-*.tmp")
    assert part.stat().st_size > 0


def test_a_kill_after_the_rename_leaves_a_whole_segment(tmp_path: Path, start: Start) -> None:
    kill_when_it_stopped(start(AFTER_THE_RENAME))
    assert offsets(tmp_path / "journal") == list(range(60))


@pytest.mark.parametrize("moment", [BEFORE_THE_RENAME, AFTER_THE_RENAME])
def test_a_recorder_that_was_killed_continues_where_the_disk_ends(
    tmp_path: Path, start: Start, moment: int
) -> None:
    kill_when_it_stopped(start(moment))
    last = offsets(tmp_path / "journal")[-1]
    with Journal(tmp_path / "journal", recorder="r") as journal:
        journal.take(a_row())
        journal.tick()
    assert offsets(tmp_path / "journal") == list(range(last + 2))


def test_a_recorder_that_was_killed_leaves_no_unfinished_file_once_it_is_back(
    tmp_path: Path, start: Start
) -> None:
    kill_when_it_stopped(start(BEFORE_THE_RENAME))
    Journal(tmp_path / "journal", recorder="r").close()
    assert not list((tmp_path / "journal").glob(".*.tmp"))


@pytest.mark.parametrize("commits", [1, 2, 5, 13])
def test_a_kill_at_full_speed_loses_nothing_that_was_reported_durable(
    tmp_path: Path, start: Start, commits: int
) -> None:
    process = start(0)
    assert process.stdout is not None
    durable = [int(process.stdout.readline()) for _ in range(commits)][-1]
    process.kill()
    process.wait()
    found = offsets(tmp_path / "journal")
    assert found == list(range(len(found)))
    assert found[-1] >= durable
