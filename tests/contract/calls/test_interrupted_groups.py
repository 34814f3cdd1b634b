"""An interrupt of a terminal's programs is no interrupt of the instruments that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.rigs.calling import TIMEOUT, until, watched

pytestmark = pytest.mark.needs("posix")

STAGE = """
import os, time
from pzc import cancelled

class Stage:
    def __init__(self):
        self.moves = []

    def move(self):
        self.moves.append("begun")
        while not cancelled():
            time.sleep(0.01)
        self.moves.append("cancelled")

    def seen(self):
        return [os.getpid(), *self.moves]
"""

PROGRAM = """
import json, os, signal, subprocess, sys, threading
from pzc import Proxy, Server, running
from stage import Stage

def interrupt(stage):
    while not running(stage):
        pass
    os.killpg(0, signal.SIGINT)

if __name__ == "__main__":
    if sys.argv[1] == "serve_in_process":
        stage = Server.serve_in_process(Stage)
    else:
        command = [sys.executable, "-m", "pzc", *sys.argv[1:]]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        stage = Proxy(json.loads(child.stdout.readline())["rep_endpoint"])
    before = stage.seen()
    threading.Thread(target=interrupt, args=[stage]).start()
    try:
        stage.move()
    except KeyboardInterrupt:
        threading.Event().wait(1.0)  # in which a server that was interrupted, too, would have ended
        print(stage.seen() == [*before, "begun", "cancelled"], before[0], flush=True)
    sys.stdin.readline()
"""

IN_TERMINAL = "import os, pty, sys; os._exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the driver and the program that uses it."""
    (tmp_path / "stage.py").write_text(STAGE)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("way", [["serve_in_process"], ["serve", "stage:Stage", "--json"]], ids=" ".join)
def test_a_server_that_a_program_started_ends_with_it_and_not_with_its_interrupt(
    folder: Path, way: list[str]
) -> None:
    with subprocess.Popen(
        [sys.executable, "program.py", *way],
        cwd=folder, text=True, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as program:  # fmt: skip
        assert program.stdin is not None
        assert program.stdout is not None
        same, _, pid = program.stdout.readline().rstrip().partition(" ")
        assert same == "True"
        with watched(int(pid)) as ended:
            program.kill()
            assert ended()


def test_a_server_of_the_background_of_a_script_is_left_to_itself(folder: Path) -> None:
    (folder / "told").touch()
    serve = f"{sys.executable} -m pzc serve stage:Stage --json > told 2>&1 & echo $!; read line"
    with subprocess.Popen(
        ["sh", "-c", serve],
        cwd=folder, text=True, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as script:  # fmt: skip
        assert script.stdout is not None
        pid = int(script.stdout.readline())
        with watched(pid) as ended:
            until(lambda: "rep_endpoint" in (folder / "told").read_text())
            assert os.getsid(pid) == script.pid
            os.kill(pid, signal.SIGTERM)
            assert ended()


@pytest.mark.parametrize("shell", ["exec {}", "{}; exit $?"], ids=["its own", "of a shell script"])
def test_a_server_that_a_terminal_shows_ends_at_its_ctrl_c(folder: Path, shell: str) -> None:
    serve = f"{sys.executable} -m pzc serve stage:Stage"
    with subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL, "sh", "-c", f"trap : INT; {shell.format(serve)}"],
        cwd=folder, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as terminal:  # fmt: skip
        assert terminal.stdin is not None
        assert terminal.stdout is not None
        assert b"serves Stage" in terminal.stdout.readline()
        terminal.stdin.write(b"\x03")
        terminal.stdin.flush()
        terminal.stdout.read()
        assert terminal.wait(TIMEOUT) == 0
