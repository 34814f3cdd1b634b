"""The demo as its user runs it: real processes, real Spark, and an honest exit status."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = "3"

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


def run_demo(directory: Path, camera: str = "examples.lab.station") -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; from pathlib import Path; from examples.lab.demo import run; "
        f"sys.exit(run(Path({str(directory)!r}), {SECONDS}, {{'camera': ({camera!r}, 'camera')}}))"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=220, check=False)


def test_the_demo_succeeds_and_writes_its_report(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "report")
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count("data:image/") >= 6
    assert "every check held" in done.stdout


@pytest.mark.once
def test_one_wrong_pixel_fails_the_demo(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "report", "tests.examples.wrong_pixel")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "frame 5 has 1 wrong pixels" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.once
def test_one_bit_changed_in_transit_fails_the_demo(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "report", "tests.examples.wrong_bit")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("gaps")]
    assert len(lines) == 1
    assert lines[0].endswith("FAILED")


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "examples.lab.demo", "--report", str(tmp_path / "report"), "--seconds", "60"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    reader = threading.Thread(target=lambda: [lines.put(line) for line in demo.stdout or ()])
    reader.start()
    try:
        while "the instruments begin" not in lines.get(timeout=60):
            pass
        children = psutil.Process(demo.pid).children(recursive=True)
        assert len(children) >= 6
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(30) == 130
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
            demo.wait()
        reader.join(10)
        if demo.stdout:
            demo.stdout.close()
