"""A bound of time for what is done with one row.

A thread looks at what another one is at, and raises `RowTooSlow` in it when that is the same for too long. It
is raised where Python code runs; a call into compiled code is over first, whose inputs are bounded by size.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ...protocol import limits

P = ParamSpec("P")
R = TypeVar("R")

_LOOKS = 4
_TURNS = 10
"""Turns of a loop; each of them lets an error in that another thread has raised."""


class RowTooSlow(Exception):
    """A row took more time than a row may."""

    def __str__(self) -> str:
        return f"more than {limits.current.stored_seconds:g} s"


class Watchdog:
    """Watches over the rows of one thread, which are given to `run` within its ``with`` block."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watchdog:
        self._row, self._at_work, self._raised = 0, False, False
        self._owner, self._over, self._lock = threading.get_ident(), threading.Event(), threading.Lock()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def run(self, work: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """What the work on one row gives.

        Raises:
            RowTooSlow: when it took more than ``stored_seconds``.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="pzc-rows", daemon=True)
            self._thread.start()
        self._row += 1
        self._at_work = True
        try:
            return work(*args, **options)
        finally:
            self._end()

    def _end(self) -> None:
        """From here on nothing is raised any more; what was raised too late comes here."""
        while self._at_work or self._raised:
            try:
                with self._lock:
                    self._at_work = False
                for _ in range(_TURNS):
                    pass
                self._raised = False
            except RowTooSlow:
                continue

    def _watch(self) -> None:
        patience, seen, times = limits.current.stored_seconds / _LOOKS, 0, 0
        while not self._over.wait(patience):
            times = times + 1 if seen == self._row else 0
            seen = self._row
            with self._lock:
                if times >= _LOOKS and self._at_work and seen == self._row:
                    self._raised = True
                    _raise_in(self._owner, RowTooSlow)


def _raise_in(thread: int, error: type[Exception]) -> None:
    """Raise an error in a thread. It is never taken back: the interpreter would go on looking for it."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
