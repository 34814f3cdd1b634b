"""The program ``pzc`` in a forked process: a real one, with a working directory, variables and signals of its own.

It starts in a tenth of the time of a new interpreter. What an interpreter does when it ends is left out.
"""

from __future__ import annotations

import io
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pzc.testing import Result, command

from tests.contract.rigs.processes import Forge

PATIENCE = 30.0
"""Seconds after which a program counts as stuck."""

command("version")  # so that the process that forks has imported the command line, and each program need not


@contextmanager
def program(
    arguments: tuple[str, ...], folder: str, environment: dict[str, str], out: str, err: str
) -> Iterator[None]:
    """Never returns: it becomes the program.

    Args:
        arguments: of the command line.
        folder: working directory.
        environment: all of it.
        out: path that stdout is written to.
        err: path that stderr is written to.
    """
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY)
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = (io.TextIOWrapper(os.fdopen(number, "wb", 0)) for number in (1, 2))
    sys.argv = ["pzc", *arguments]
    status: object = 0
    try:
        runpy.run_module("pzc", run_name="__main__", alter_sys=True)
    except SystemExit as exc:
        status = exc.code
    os._exit(status if isinstance(status, int) else 1)
    yield


class Program:
    """A forked ``pzc``, as its test sees it.

    Args:
        forge: forks it.
        arguments: of the command line.
        folder: working directory.
        environment: all of its variables.
        stdout: where it writes to, such as a terminal; default a file that `line` and `finish` read.

    Attributes:
        pid: of the process.
    """

    def __init__(
        self,
        forge: Forge,
        arguments: tuple[str, ...],
        folder: Path,
        environment: dict[str, str],
        stdout: str | None = None,
    ) -> None:
        self._forge = forge
        self._files = tempfile.TemporaryDirectory(prefix="pzc-program-")
        self._out, self._err = (Path(self._files.name, name) for name in ("out", "err"))
        for path in (self._out, self._err):
            path.touch()
        given = program, arguments, str(folder), environment, stdout or str(self._out), str(self._err)
        control, theirs = socket.socketpair()
        with control, theirs:
            self.pid = forge.tell("start", ({}, {}, *given), theirs.fileno())
        self._watch = os.pidfd_open(self.pid)
        self._status: int | None = None
        self._lines = 0

    def line(self) -> str:
        """The next line of stdout; what is there of one if the program has ended."""
        self._lines += 1
        pause, deadline = threading.Event(), time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ended = self.wait(0)
            lines = self._out.read_text(encoding="utf-8").splitlines(keepends=True)
            found = lines[self._lines - 1] if len(lines) >= self._lines else ""
            if found.endswith("\n") or ended:
                return found
            pause.wait(0.005)
        raise AssertionError(f"no line; stderr: {self._err.read_text(encoding='utf-8')}")

    def wait(self, timeout: float = PATIENCE) -> bool:
        """True when it has ended."""
        return self._status is not None or bool(select.select([self._watch], [], [], timeout)[0])

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self._status is None:
            os.kill(self.pid, number)

    def finish(self) -> Result:
        """Wait for its end; what it wrote after the lines that were read, and its exit status."""
        assert self.wait(), f"{self.pid} goes on; stderr: {self._err.read_text(encoding='utf-8')}"
        out, err = (path.read_text(encoding="utf-8") for path in (self._out, self._err))
        self.close()
        assert self._status is not None
        return Result(self._status, "".join(out.splitlines(keepends=True)[self._lines :]), err)

    def close(self) -> None:
        """Kill it unless it has ended."""
        if self._status is not None:
            return
        if not self.wait(0):
            os.kill(self.pid, signal.SIGKILL)
        self._status = os.waitstatus_to_exitcode(self._forge.tell("reap", self.pid))
        os.close(self._watch)
        self._files.cleanup()
