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

ROOT = Path(__file__).resolve().parents[3]
SECONDS = "3"

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(240)]


@pytest.mark.serial
def test_the_demo_succeeds_and_writes_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report"
    command = [sys.executable, "-m", "examples.lab.demo", "--report", str(report), "--seconds", SECONDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (report / "index.html").read_text()
    assert page.count("data:image/") >= 6
    assert "every check held" in done.stdout
    assert "look at the lab while it runs: http://127.0.0.1:" in done.stdout


@pytest.mark.once
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
