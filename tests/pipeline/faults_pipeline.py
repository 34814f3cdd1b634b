"""A running pipeline whose processes are killed at random moments while its journal grows."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from tests.pipeline.publishers import await_

LONGEST = 240.0
"""Seconds that anything may take on a busy machine."""

SEGMENTS_PER_MOMENT = 3
"""By which the journal grows before a fault."""

WARM = 0.7
"""Share of the faults that do not happen while Spark starts."""


STACKS = {"PYTHONFAULTHANDLER": "1"}
"""Lets a process write the stacks of its threads when it is told to abort."""


class Feed:
    """Moves the finished segments of one journal into another, as a recorder that finishes them one by one."""

    def __init__(self, source: Path, journal: Path) -> None:
        journal.mkdir()
        self._waiting = sorted(source.glob("segment-*.parquet"), reverse=True)
        self._journal = journal
        self.add()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, count: int = 1) -> None:
        """Finish so many."""
        for _ in range(min(count, len(self._waiting))):
            path = self._waiting.pop()
            os.replace(path, self._journal / path.name)

    @contextmanager
    def growing(self, count: int, every: float) -> Iterator[None]:
        """Finish so many meanwhile, and what is left of them at the end."""
        end = threading.Event()

        def run() -> None:
            for _ in range(count):
                end.wait(every)
                self.add()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


class Running:
    """One process of ``pzc pipeline run``, or ``follow``, that goes on until somebody ends it."""

    def __init__(self, log: Path, *arguments: str, job: str = "run", **environ: str) -> None:
        self._log = log
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pzc", "pipeline", job, *arguments],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={**os.environ, **STACKS, **environ},
                start_new_session=True,
            )  # fmt: skip
        self._seen: dict[int, psutil.Process] = {}

    def family(self) -> list[psutil.Process]:
        """The processes that it has started and that live."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                self._seen[process.pid] = process
        return [process for process in self._seen.values() if lives(process)]

    def named(self, part: str) -> list[psutil.Process]:
        """Those of them whose command line has this."""
        return [process for process in self.family() if part in " ".join(command_line(process))]

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def told(self) -> str:
        """The end of its log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-8000:]

    def kill(self) -> None:
        """Kill the driver; what it has started must end by itself."""
        self.family()
        self._process.kill()
        self._process.wait(LONGEST)

    def interrupt(self) -> int:
        """End it as Ctrl-C does; its status."""
        self.family()
        self._process.send_signal(signal.SIGINT)
        return self.wait("an interrupt")

    def wait(self, why: str, timeout: float = LONGEST) -> int:
        """Its status at its end; one that hangs tells the stacks of its threads."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait(timeout)
            told = f"{why}: the driver did not end within {timeout:g} s: {self.told()}"
            raise AssertionError(told) from None

    def gone(self) -> bool:
        """Whether nothing is left of it."""
        return self.status is not None and not self.family()

    def close(self) -> None:
        """Kill whatever is left."""
        left = self.family()
        if self.status is None:
            self._process.kill()
            self._process.wait(LONGEST)
        for process in left:
            if lives(process):
                process.kill()


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@dataclass
class Ordeal:
    """A pipeline and what is done to it.

    Attributes:
        start: starts the pipeline, as whoever supervises it would.
        feed: lets the journal grow.
        tables: their folder.
        dice: draws faults and moments.
        faults: what may happen: a name of a method.
        patience: most seconds before a fault, from the start of the pipeline on, or from its next rows on.
    """

    start: Callable[[], Running]
    feed: Feed
    tables: Path
    dice: Random
    faults: tuple[str, ...] = ("driver", "driver", "worker", "machine")
    patience: float = 5.0
    struck: list[str] = field(default_factory=list)
    all: list[Running] = field(default_factory=list)

    def go_through(self, moments: int) -> None:
        """Let so many things happen while the journal grows, and the rest of the journal come at the end."""
        self.begin()
        for _ in range(moments):
            self.strike(self.dice.choice(self.faults), warm=self.dice.random() < WARM)
        self.feed.add(len(self.feed))

    def strike(self, fault: str, *, warm: bool) -> None:
        """Let one thing happen at a random moment; a warm pipeline has stored rows before."""
        after = self.dice.uniform(0.0, self.patience)
        about = f"{fault} after {after:.2f} s, {'warm' if warm else 'cold'}"
        before = self._newest()
        self.feed.add()
        if warm:
            await_(
                lambda: self._newest() > before or self.running.status is not None,
                f"rows before {about}",
                LONGEST,
            )
        self._check(about)
        with self.feed.growing(SEGMENTS_PER_MOMENT - 1, after / SEGMENTS_PER_MOMENT):
            threading.Event().wait(after)
            if getattr(self, f"_strike_{fault}")():
                self.struck.append(about)
        self._check(about)

    def _check(self, about: str) -> None:
        assert self.running.status is None, f"{about}: the pipeline has ended: {self.running.told()}"

    def _newest(self) -> int:
        """When a file of the notifications was changed last."""
        return max((path.stat().st_mtime_ns for path in self._files()), default=0)

    def _files(self) -> Iterator[Path]:
        return (path for path in (self.tables / "notifications").rglob("*.parquet") if path.exists())

    def close(self) -> None:
        """End the pipeline; nothing may be left of any that was killed."""
        try:
            if self.all and self.running.status is None:
                self.running.interrupt()
            for running in self.all:
                await_(running.gone, "the end of all that a killed pipeline has started", LONGEST)
        finally:
            for running in self.all:
                running.close()

    @property
    def running(self) -> Running:
        return self.all[-1]

    def begin(self) -> None:
        """Start the pipeline, or the next one."""
        self.all.append(self.start())

    def _strike_driver(self) -> bool:
        """``kill -9`` of the driver, and the next one at once."""
        self.running.kill()
        self.begin()
        return True

    def _strike_machine(self) -> bool:
        """``kill -9`` of Spark's virtual machine: the driver ends by itself, and is started again."""
        found = self.running.named("java")
        if not found:
            return False
        for process in found:
            process.kill()
        assert self.running.wait("Spark is gone") == 1
        self.begin()
        return True

    def _strike_worker(self) -> bool:
        """``kill -9`` of a Python process that verifies and decodes; nobody starts anything again."""
        found = self.running.named("pyspark.daemon")
        if not found:
            return False
        self.dice.choice(found).kill()
        return True
