"""The command line in this process and in others, and a module for it to serve."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pzc.testing import Result, Running, command

from tests.contract.rigs.processes import Forge
from tests.contract.rigs.programs import PATIENCE, Program

KEY = "correct horse battery staple"

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

    def say(self):
        print("said")

    def scream(self):
        raise RangeError("two\\nlines \\x1b[2J")

    def pipe(self):
        raise BrokenPipeError("of the instrument")

    def leave(self):
        sys.exit(0)


class Rack:
    """Several supplies by name, and how many there are."""

    def __init__(self):
        self.supplies = {"left": Supply(), "count": 1}


class Broken:
    def __init__(self):
        raise RangeError("no such instrument")


class Leaving:
    def __init__(self):
        sys.exit(0)


number = 3
'''


class Console:
    """Runs ``pzc`` in a folder, with an environment of its own.

    Args:
        folder: working directory of its commands.
        forge: forks those that need a process.

    Attributes:
        environment: the variables that are set for its commands, or with None removed.
        forge: as given.
        endpoint: where the server that it knows as ``psu`` is reached.
    """

    def __init__(self, folder: Path, forge: Forge) -> None:
        self.folder = folder
        self.environment: dict[str, str | None] = {"TZ": "UTC"}
        self.endpoint = ""
        self.forge = forge
        self._programs: list[Program] = []
        self._running: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: str, meanwhile: Callable[[Running], object] | None = None) -> Result:
        """Run a command in this process."""
        return command(*arguments, environment=self.environment, cwd=self.folder, meanwhile=meanwhile)

    def variables(self) -> dict[str, str]:
        """The whole environment of its commands."""
        found = {**os.environ, **self.environment}
        return {name: value for name, value in found.items() if value is not None}

    def start(self, *arguments: str, stdout: str | None = None) -> Program:
        """Start a command in a forked process, which is killed at the end of the test."""
        program = Program(self.forge, arguments, self.folder, self.variables(), stdout)
        self._programs.append(program)
        return program

    def interpret(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command as the shell does, in a new interpreter, for what happens when that one ends."""
        program = [sys.executable, "-P", "-m", "pzc", *arguments]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        environment = {**self.variables(), "PYTHONUNBUFFERED": ""}
        process = subprocess.Popen(program, cwd=self.folder, env=environment, text=True, **pipes)
        self._running.append(process)
        return process

    def serve(self, *arguments: str) -> tuple[Program, str]:
        """A server of ``bench:Supply``, and its REP endpoint out of the line that it prints."""
        program = self.start("serve", "bench:Supply", *arguments)
        line = program.line()
        found = re.search(r" at ((?:tcp|ipc)://[^ ,]+), publishes at ", line)
        assert found, line or program.finish().err
        return program, found[1]

    def close(self) -> None:
        for program in self._programs:
            program.close()
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)
