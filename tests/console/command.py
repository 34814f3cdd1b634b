"""The real command in processes of its own, and a module for it to serve."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 30.0
"""Seconds after which a command counts as stuck."""

MODULE = '''
"""Instruments without hardware."""

import sys
import threading
from concurrent.futures import Future

import numpy

from pzc import Signal


class RangeError(ValueError):
    """Outside the range; no other process can import this class."""


class Supply:
    """A power supply."""

    def __init__(self, resource="SIM", *, limit=30.0):
        self.resource = resource
        self.limit = limit
        self.settings = {"slew": 0.5, "label": "bench"}
        self.history = [1, 2]
        self.changed = Signal()
        self._voltage = 0.0
        self._work = threading.Event()

    @property
    def voltage(self):
        """Programmed voltage in volts."""
        return self._voltage

    @voltage.setter
    def voltage(self, value):
        if not 0 <= value <= self.limit:
            raise RangeError(f"{value} V is outside 0..{self.limit:g} V")
        old, self._voltage = self._voltage, float(value)
        self.changed.emit(self._voltage, old)

    def arguments(self, *args, **kwargs):
        """What came."""
        return args, kwargs

    def trace(self, count=3):
        return numpy.arange(count, dtype="int16")

    def raw(self):
        return b"\\x00\\xff"

    def odd(self):
        return float("nan"), numpy.float32(0.5), ValueError("kept"), {1: "one"}

    def text(self):
        return "two\\nlines \\x1b[31m"

    def nothing(self):
        return None

    def later(self):
        future = Future()
        threading.Timer(0.01, future.set_result, [42]).start()
        return future

    def never(self):
        return Future()

    def wait(self):
        print("waiting", flush=True)
        self._work.wait()

    def pipe(self):
        raise BrokenPipeError("of the instrument")

    def leave(self):
        sys.exit(0)


class Broken:
    def __init__(self):
        raise RangeError("no such instrument")


class Leaving:
    def __init__(self):
        sys.exit(0)


number = 3
'''


@dataclass
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=pytest.fail)


class Console:
    """Runs ``pzc`` in a folder, with an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "", "PYTHONFAULTHANDLER": "1", "TZ": "UTC"}
        self.running: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "pzc", *arguments]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True, **pipes)
        self.running.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> Outcome:
        out, err = process.communicate(timeout=PATIENCE)
        return Outcome(process.returncode, out, err)

    def __call__(self, *arguments: str) -> Outcome:
        return self.finish(self.start(*arguments))

    def serve(self, *arguments: str) -> tuple[subprocess.Popen[str], str]:
        """A server of ``bench:Supply``, and its REP endpoint out of the line that it prints."""
        process = self.start("serve", "bench:Supply", *arguments)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r" at ((?:tcp|ipc)://[^ ,]+), publishes at ", line)
        assert found, line + self.finish(process).err
        return process, found[1]

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)
