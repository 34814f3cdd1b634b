"""The demo as its user runs it: real processes, real Spark, and an honest exit status."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""As a user has it."""

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(240)]


def demo(folder: Path, seconds: int) -> list[str]:
    return [sys.executable, "-m", "examples.lab.demo", "--report", str(folder), "--seconds", str(seconds)]


@pytest.mark.serial
def test_the_demo_succeeds_and_writes_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = subprocess.run(
        demo(report, 3), cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=220, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (report / "index.html").read_text()
    assert page.count("data:image/") >= 6
    assert "every check held" in done.stdout
    assert "look at the lab while it runs: http://127.0.0.1:" in done.stdout
    links = re.findall('<a href="([^"]+)">', page)
    assert "monitor.png" in links
    assert all((report / link).is_file() for link in links)


@pytest.mark.once
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        demo(tmp_path, 60), cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as running:  # fmt: skip
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        reader = threading.Thread(target=lambda: [lines.put(line) for line in running.stdout or ()])
        reader.start()
        try:
            while "the instruments begin" not in lines.get(timeout=60):
                pass
            processes = [each for each in psutil.process_iter() if of_lab(each, tmp_path)]
            assert len(processes) >= 7
            os.killpg(running.pid, signal.SIGINT)
            assert running.wait(30) == 130
            _, alive = psutil.wait_procs(processes, timeout=10)
            assert alive == []
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
            subprocess.run([sys.executable, "-m", "pzc", "down", str(tmp_path / "lab.toml")], check=False)
            reader.join(10)


def of_lab(process: psutil.Process, folder: Path) -> bool:
    """Whether it works in a lab's folder."""
    try:
        return process.cwd() == str(folder)
    except psutil.Error:
        return False
