"""One process of a lab: started, heard, started again, ended."""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..protocol.shown import plain
from .logs import LOG_BYTES, LOG_FILES
from .units import Unit

FIRST, LONGEST, SETTLED = 1.0, 60.0, 60.0
"""Seconds before the first restart, before any, and of running after which the next is a first one again."""

LINE = 16 << 10
"""Bytes of a line of output at most."""

ANNOUNCED = {"rep_endpoint", "metrics", "monitor"}
"""Where something is that runs: one of these stands in the line by which it says so."""

_KEEPER = Path(__file__).with_name("keeper.py")
_KILLED = 5.0
_PID = re.compile(rb'\{"pid": ([0-9]+)\}\n')
"""How a keeper tells what it has started."""

logger = logging.getLogger("pzc.lab")


class Pauses:
    """Seconds before each restart: 1, 2, 4 … 60; 1 again after a minute of running. Pure."""

    def __init__(self) -> None:
        self._next = FIRST

    def after(self, ran: float) -> float:
        """The pause after a process that ran for so many seconds."""
        if ran >= SETTLED:
            self._next = FIRST
        pause, self._next = self._next, min(2 * self._next, LONGEST)
        return pause


class LabProcess:
    """Keeps one unit running, in a thread of its own.

    ::

        state      event                                    next
        starting   its line of JSON came (`ANNOUNCED`)      running
        starting,  it ended, and is started again           waiting, for 1, 2, 4 … 60 s
        running    it ended with status 0, is not           ended
                   it ended otherwise, is not               failed
        waiting    the pause is over, or `restart`          starting
        any        `restart`                                starting, when it has ended
        any        `stop`                                   stopped, when it has ended

    Args:
        unit: what runs.
        folder: where it works.
        environment: its variables.
        log: file that gets its output.
        grace: seconds that it has to end.

    Attributes:
        unit: as given; likewise ``grace``.
        state: see above.
    """

    def __init__(
        self, unit: Unit, folder: Path, environment: Mapping[str, str], log: Path, grace: float
    ) -> None:
        self.unit = unit
        self.state = "starting"
        self.grace, self._folder, self._environment = grace, folder, environment
        self._log = _Log(log)
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._wake = threading.Event()
        self._stopping = False
        self._again = False
        self._process: subprocess.Popen[bytes] | None = None
        self._since, self._restarts, self._last, self._about = time.monotonic(), 0, "", dict[str, Any]()
        self._before = ""
        self._due, self._pid = 0.0, 0
        self._thread = threading.Thread(target=self._keep, name=f"pzc-lab {unit.name}", daemon=True)
        self._thread.start()

    def wait_settled(self, timeout: float) -> bool:
        """Wait until it runs, or has ended for the first time."""
        return self._settled.wait(timeout)

    def is_of(self, unit: Unit, environment: Mapping[str, str]) -> bool:
        """True when this is what runs, or will again."""
        return (self.unit, self._environment) == (unit, environment) and self.state not in ("ended", "failed")

    def restart(self) -> None:
        """End it, and start it at once, whatever its state."""
        with self._lock:
            self._again = True
            self._settled.clear()
        self._end()

    def stop(self) -> None:
        """Let it end; `join` waits for that."""
        with self._lock:
            self._stopping = True
        self._end()

    def join(self) -> None:
        """Wait until it has ended; what does not end in its time is killed."""
        self._thread.join(self.grace + _KILLED)
        process = self._process
        if self._thread.is_alive() and process is not None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            self._thread.join(_KILLED)

    def report(self) -> dict[str, Any]:
        """What it does.

        Returns:
            ``name``, ``kind``, ``state``, ``since`` (seconds in that state), ``pid`` (0 when none runs),
            ``restarts``, ``endpoint``, ``address`` (that a browser or Prometheus asks), ``due`` (seconds
            to the next start), ``last`` (line that it wrote; while it starts again, the last one before).
        """
        with self._lock:
            runs = self.state in ("starting", "running") and self._process is not None
            told = self._about if runs else {}
            return {
                "name": self.unit.name,
                "kind": self.unit.kind,
                "state": self.state,
                "since": time.monotonic() - self._since,
                "pid": self._pid if runs else 0,
                "restarts": self._restarts,
                "endpoint": str(told.get("rep_endpoint", "")),
                "address": str(told.get("monitor", told.get("metrics", ""))),
                "due": max(0.0, self._due - time.monotonic()) if self.state == "waiting" else 0.0,
                "last": self._last or (self._before if self.state == "starting" else ""),
            }

    def _end(self) -> None:
        self._wake.set()
        with self._lock:
            process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _keep(self) -> None:
        pauses = Pauses()
        while True:
            began = time.monotonic()
            status = self._run()
            with self._lock:
                if self._stopping:
                    break
                again, self._again = self._again, False
                wanted = again or self.unit.starts_again(status)
                pause = 0.0 if again else pauses.after(time.monotonic() - began)
                self._due = time.monotonic() + pause
                self._restarts += wanted
                by = _signal_of(status)
                ended = f"ended by {by}" if by else f"ended with status {status}"
                self._last = ended if by else self._last or ended
            self._become("waiting" if wanted else "ended" if status == 0 else "failed")
            if not again:
                self._log.put(f"{ended}{f'; again in {pause:g} s' if wanted else ''}")
                self._settled.set()
            self._wake.wait(pause if wanted else None)
            with self._lock:
                self._wake.clear()
                if self._stopping:
                    break
                self._again = False
        self._become("stopped")
        self._settled.set()
        self._log.close()

    def _run(self) -> int:
        command = [sys.executable, "-I", "-S", str(_KEEPER), str(self.grace), *self.unit.command]
        with self._lock:
            if self._stopping:
                return 0
            self._wake.clear()
            self._again, self._about, self._pid = False, {}, 0
            self._before, self._last = self._last, ""
            try:
                process = self._process = subprocess.Popen(
                    command, cwd=self._folder, env=dict(self._environment), start_new_session=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
            except OSError as exc:
                self._last = f"cannot be started: {exc}"
                return 1
        self._become("starting")
        threading.Thread(
            target=self._bury, args=[process], name=f"pzc-lab {self.unit.name} keeper", daemon=True
        ).start()
        with process:
            assert process.stdout is not None
            while line := process.stdout.readline(LINE):
                if not self._pid and (told := _PID.fullmatch(line)):
                    self._begun(int(told[1]))
                    continue
                self._hear(line.decode(errors="backslashreplace").rstrip())
        with self._lock:
            self._process = None
        return process.returncode

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        """Kill what a keeper that was killed has left: it would hold the pipe, and its port, for ever."""
        status = process.wait()
        with self._lock:
            left = self._pid if status < 0 and self._process is process else 0
        if left:
            with contextlib.suppress(OSError):
                os.killpg(left, signal.SIGKILL)

    def _begun(self, pid: int) -> None:
        """Its keeper has started it; lines before that are the system's, or of a keeper that could not."""
        self._pid = pid
        if not self.unit.announces:
            self._become("running")
            self._settled.set()

    def _hear(self, line: str) -> None:
        if not line:
            return
        self._log.put(line)
        about = _object_in(line) if self.state == "starting" else {}
        if ANNOUNCED.isdisjoint(about):  # a line of the driver's own
            self._last = line
            return
        with self._lock:
            self._about = about
        self._become("running")
        self._settled.set()

    def _become(self, state: str) -> None:
        with self._lock:
            self.state, self._since = state, time.monotonic()


def _signal_of(status: int) -> str:
    """The signal that ended a process, or its keeper, which passes a signal on as 128 and its number."""
    with contextlib.suppress(ValueError):
        return signal.Signals(-status if status < 0 else status - 128).name
    return ""


class _Log(logging.handlers.RotatingFileHandler):
    """Lines of a file that is never longer than it may be; those that the disk refuses are counted there."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._missing, self._why = 0, ""

    def put(self, line: str) -> None:
        """Write a line, behind a word of those that could not be written."""
        missing, self._missing = self._missing, 0
        if missing:
            self._put(f"{missing} lines are missing here: {self._why}")
            if self._missing:
                self._missing = missing + 1
                return
            self._why = ""
        self._put(line)

    def _put(self, line: str) -> None:
        self.handle(logging.makeLogRecord({"msg": plain(line, keep="\t")}))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Tell it once, and open the file again for the next line."""
        self._missing += 1
        if not self._why:
            self._why = str(sys.exc_info()[1])
            logger.error("log %s cannot be written, its process goes on: %s", self.baseFilename, self._why)
        with contextlib.suppress(OSError):
            self.close()


def _object_in(line: str) -> dict[str, Any]:
    """The JSON object at the end of a line, behind what a driver printed without an end; empty for none."""
    for found in re.finditer(r'\{"', line):
        with contextlib.suppress(ValueError):
            return cast("dict[str, Any]", json.loads(line[found.start() :]))
    return {}
