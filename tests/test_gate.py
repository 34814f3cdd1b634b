"""A pytest that hangs is ended by whoever started it, and tells where it hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from tests import scheduling
from tests.gate import ended
from tests.pipeline.publishers import await_

HANGING = """
import os, subprocess, threading
from pathlib import Path

def test_that_hangs():
    left = subprocess.Popen(["sleep", "1000"])
    Path("began.tmp").write_text(str(left.pid))
    os.replace("began.tmp", "began")
    threading.Event().wait()
"""


def test_a_pytest_that_hangs_tells_its_stacks_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGING, encoding="utf-8")
    log = tmp_path / "log"
    command = [sys.executable, "-P", "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "test_it.py"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file)
    await_(lambda: (tmp_path / "began").is_file(), "the test has begun")
    assert not ended(process, 0.0)
    told = log.read_text(encoding="utf-8", errors="replace")
    assert "in test_that_hangs" in told
    assert "in pytest_cmdline_main" in told
    left = int((tmp_path / "began").read_text(encoding="utf-8"))
    await_(lambda: not psutil.pid_exists(left), "what it has started is gone")


CONFTEST = """
import sys

sys.path.insert(0, {folder!r})

def pytest_xdist_make_scheduler(config, log):
    from scheduling import Scheduling
    return Scheduling(config, log)
"""

KILLING = """
import os

def test_before():
    pass

def test_that_kills():
    with open("killed", "a") as file:
        file.write("x")
    os._exit(1)

def test_behind():
    pass
"""


def test_what_kills_its_process_has_failed_once_and_all_others_run(tmp_path: Path) -> None:
    folder = str(Path(scheduling.__file__).parent)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(folder=folder), encoding="utf-8")
    (tmp_path / "test_killing.py").write_text(KILLING, encoding="utf-8")
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text("def test(): pass\n", encoding="utf-8")
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-p",
        "no:cacheprovider",
    ]
    told = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    ).stdout
    assert "1 failed, 6 passed" in told
    assert (tmp_path / "killed").read_text(encoding="utf-8") == "x"


def test_the_end_of_a_pytest_is_seen() -> None:
    assert ended(subprocess.Popen([sys.executable, "-c", ""]), 30.0)
