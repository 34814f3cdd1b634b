"""Tasks whose process dies, each in a process of its own, and halved until the row is found that it dies of.

::

    a task             its process                      next
    of many segments   reports                          its report
                       dies, or takes too long          two halves
    of one segment     the same                         two halves of its rows
    of one row         the same                         the row is filed in quarantine as `WorkerDied`
    of refused rows    the same                         the segment is damaged, nobody can read it

After `PROCESSES` processes what is left is filed in quarantine as it is.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from ...protocol import limits
from ...protocol.errors import JournalError
from .summary import Damage, Report, decode, encode
from .work import Task, Work

log = logging.getLogger("pzc.pipeline")

PROCESSES = 200
"""For one batch."""

SECONDS = 60.0
"""That a process may take, and a millisecond for each of its rows."""

_FAILED = 3
_PROGRAM = "from pzc.pipeline.tables.apart import main; main()"


def apart(work: Work, tasks: Sequence[Task], processes: int = PROCESSES) -> list[Report]:
    """As `Workers.run`, whatever processes die.

    Args:
        work: see `Work`.
        tasks: see `Work`.
        processes: that may be started before what is left is refused.

    Raises:
        JournalError: what the work itself has raised.
        OSError: when no process can be started.
    """
    waiting, found, numbers = deque(tasks), list[Report](), len(tasks)
    while waiting:
        task, processes = waiting.popleft(), processes - 1
        if processes < 0:
            task = task._replace(refused=True)
        report = alone(work, task, SECONDS + task.rows / 1000)
        if report is not None:
            found.append(report)
        elif task.refused:
            waiting = deque(each for each in waiting if each.paths != task.paths)
            reason = "whoever reads it dies"
            damaged = [Damage(Path(path).name, None, 0, reason) for path in task.paths]
            found.append(Report(task.number, damaged=damaged))
        else:
            log.warning("a process died of %d rows in %s", task.rows, ", ".join(task.paths))
            waiting.extendleft(reversed(task.halves(numbers)))
            numbers += 2
    return found


def alone(work: Work, task: Task, patience: float) -> Report | None:
    """What one process reports; None when it has died, or takes longer than ``patience`` seconds."""
    command = [sys.executable, "-P", "-c", _PROGRAM]
    given = pickle.dumps((limits.current, work, task))
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == _FAILED:
        raise JournalError(f"the pipeline has ended: {done.stderr.decode(errors='replace').strip()}")
    return decode(done.stdout) if done.returncode == 0 else None


def main() -> None:
    """What such a process runs: a task on its standard input becomes a report on its standard output."""
    told = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no report
    bounds, work, task = pickle.load(sys.stdin.buffer)
    limits.use(bounds)
    try:
        report = encode(work(task))
    except Exception as exc:  # whatever it is, it is no death
        sys.stderr.write(f"{type(exc).__name__}: {exc}")
        sys.exit(_FAILED)
    with os.fdopen(told, "wb") as output:
        output.write(report)
