"""A folder with a lab file, the commands of its lab, and what becomes of its processes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pzc.testing import Result, Running, command

TIMEOUT = 30.0

BENCH = """
import os, subprocess, sys, threading

class Supply:
    voltage = 1.0

    def ramp(self, seconds):
        threading.Event().wait(seconds)

class Wrong:
    def __init__(self, address):
        raise OSError(f"no route to {address}")

class Leaving:
    def __init__(self):
        print("warming up", flush=True)
        threading.Timer(0.2, os._exit, [3]).start()

class Telling(Supply):
    def __init__(self):
        print('{"idn": "PSU-7"}', flush=True)

class Dotting(Supply):
    def __init__(self):
        print("connecting", end="", flush=True)

class Hanging:
    def __init__(self):
        print("hanging")
        threading.Event().wait()

class Heir:
    def __init__(self):
        self.child = subprocess.Popen([sys.executable, "-c", "import signal; signal.sigtimedwait([], 600)"]).pid

class Parent:
    def __init__(self):
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.sigtimedwait([], 600)"], start_new_session=True)
        self.child = child.pid
"""

SUPPLY = '[server.psu]\nobject = "bench:Supply"\n'


class Bench:
    """A folder with a lab file, and the commands of its lab.

    Args:
        folder: of the file.
        variables: of the commands, beside their folders.
    """

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self._environment = {
            "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"), **variables,
        }  # fmt: skip
        (folder / "bench.py").write_text(BENCH, encoding="utf-8")

    def write(self, text: str, grace: float = 5.0) -> None:
        (self.folder / "lab.toml").write_text(f"[lab]\ngrace = {grace}\n{text}", encoding="utf-8")

    def run(self, *arguments: str, meanwhile: Callable[[Running], object] | None = None) -> Result:
        return command(*arguments, cwd=self.folder, environment=self._environment, meanwhile=meanwhile)

    def environment(self) -> dict[str, str]:
        """All variables of its commands."""
        return {**os.environ, **self._environment}

    def row(self, name: str) -> dict[str, Any]:
        return next(row for row in self.run("status", "--json").rows if row["name"] == name)

    def await_row(self, name: str, expected: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while not expected(row := self.row(name)):
            assert time.monotonic() < deadline, row
        return row


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_there(pid: int) -> bool:
    """True while a process runs; one that has ended and was not waited for does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def await_gone(pid: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while is_there(pid):
        assert time.monotonic() < deadline, f"{pid} is still there"
