"""A process that ends when its parent does."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from tests.contract.rigs.peers import TIMEOUT

CHILD = """
import pathlib, sys, threading
from pzc.pipeline.source.readers import end_with_parent

watch = end_with_parent(lambda: pathlib.Path(sys.argv[1]).touch())
if sys.argv[2] == "closed":
    watch.set()
print("ready", flush=True)
threading.Event().wait(float(sys.argv[3]))
"""

PARENT = """
import subprocess, sys

child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


def orphan(place: Path, how: str, seconds: float) -> int:
    """A process whose parent was killed; a descriptor that tells when it ends."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD, str(place), how, str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        watch = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    return watch


def ended(watch: int, timeout: float) -> bool:
    return bool(select.select([watch], [], [], timeout)[0])


def test_it_gives_everything_back_and_ends_when_its_parent_was_killed(tmp_path: Path) -> None:
    watch = orphan(tmp_path / "given back", "watching", 600.0)
    try:
        assert ended(watch, TIMEOUT)
    finally:
        os.close(watch)
    assert (tmp_path / "given back").exists()


def test_a_watch_that_was_closed_ends_nothing(tmp_path: Path) -> None:
    watch = orphan(tmp_path / "given back", "closed", 2.0)
    try:
        assert not ended(watch, 1.2)
        assert ended(watch, TIMEOUT)
    finally:
        os.close(watch)
    assert not (tmp_path / "given back").exists()
