"""Running: what a command needs that serves until it is told to end."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from ..agents import Agent
from ..transport.threads import waited
from .output import write_whole

ENDING = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]
"""Signals that end a command; Windows has no SIGHUP."""

SIGNAL_LATENCY, OWNER_LATENCY = 0.2, 1.0
"""Seconds within which a signal, and the end of the program that owns this one, are seen."""


def leave_group() -> None:
    """Leave the process group of the program that started this one, as its interrupts are meant for itself.

    That program is the owner: a process that left its group ends with it. What a terminal shows stays, so
    that Ctrl-C there ends it; so does what has a group of its own, or was started to ignore interrupts.
    """
    owned = hasattr(os, "setsid") and os.getpgrp() != os.getpid() and not any(map(_on_terminal, (1, 2)))
    if owned and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        os.setsid()
        threading.Thread(target=_end_with, args=[os.getppid()], name="pzc-owner", daemon=True).start()


def _end_with(owner: int) -> None:
    pause = threading.Event()
    while os.getppid() == owner:
        pause.wait(OWNER_LATENCY)
    os.kill(os.getpid(), signal.SIGTERM)


def _on_terminal(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # it is no terminal, or that of others
        return False


class Signals:
    """SIGINT, SIGTERM and SIGHUP (its terminal is closed), from now to the end of the process.

    One that the process was started to ignore, as in the background of a script or by nohup, stays ignored.

    Attributes:
        interrupt: the first signal raises KeyboardInterrupt; while this is False, it is only noted.
        came: a signal came.
    """

    def __init__(self) -> None:
        self.interrupt = True
        self.came = False
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self.came = not self.came, True
        if first and self.interrupt:
            raise KeyboardInterrupt


def turns(count: int | None, every: float, first: float = 0.0) -> Iterator[int]:
    """Numbers of turns from 1, without end for None: one each so many seconds, the first after ``first``."""
    pause, due = threading.Event(), time.monotonic() + first
    for number in itertools.count(1) if count is None else range(1, count + 1):
        waited(pause.wait, max(0.0, due - time.monotonic()))
        yield number
        due = max(due + every, time.monotonic())


def serve_until_told(
    agent: Agent, signals: Signals, path: Path | None, announce: Callable[[], object]
) -> None:
    """Say where an agent is; return when it was stopped or a signal came, which only is noted from now on.

    Args:
        agent: that answers.
        signals: of the process.
        path: of the endpoint file; None for none.
        announce: says it to whoever started the command, once the file is there.
    """
    signals.interrupt = False
    with _endpoint_file(path, agent.rep_endpoint):
        announce()
        while not (signals.came or agent.join(SIGNAL_LATENCY)):
            pass


@contextmanager
def _endpoint_file(path: Path | None, endpoint: str) -> Generator[None]:
    """Write the file, and remove it at the end unless it is another server's."""
    if path is None:
        yield
        return
    try:
        write_whole(path, f"{endpoint}\n")
    except OSError as exc:
        raise OSError(f"endpoint file {path} cannot be written: {exc.strerror}") from exc
    try:
        yield
    finally:
        with suppress(OSError):  # the file, or its folder, may be gone by now
            if path.read_text(encoding="utf-8").strip() == endpoint:
                path.unlink()
