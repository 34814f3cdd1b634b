"""All processes of a lab, and how they are asked for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..protocol.errors import PeerLost
from .file import read_lab
from .places import Places
from .process import LabProcess
from .units import ENDING, chosen, environment_of, units_of

SETTLE, LOOK = 15.0, 0.1
"""Seconds for which processes of one kind are waited for before the next kind is started, and within
which that ends when the lab does."""


class Supervisor:
    """Starts, watches and ends the processes of one lab file. Its public methods are what a lab is asked.

    Args:
        path: of the lab file.
        places: where logs go.
        told: True when its own process was told to end, as by a signal.
    """

    def __init__(self, path: Path, places: Places, told: Callable[[], bool] = lambda: False) -> None:
        self._path, self._places, self._told = path, places, told
        self._processes: dict[str, LabProcess] = {}
        self._lock = threading.RLock()
        self._started, self._ended = threading.Event(), threading.Event()

    def up(self, names: list[str]) -> None:
        """Read the file again and make it true.

        What does not run is started, what has changed is started anew, what is gone is ended.

        Args:
            names: of the processes that are meant; none for all.

        Raises:
            ConfigError: as `read_lab`; for a name that the lab does not have. Nothing is changed then.
            PeerLost: when the lab is being ended.
        """
        file = read_lab(self._path)
        units = units_of(file)
        wanted = chosen(units, names)
        environment = {**os.environ, **environment_of(file)}
        with self._lock:
            if self._is_ending():
                raise PeerLost("the lab is being ended: pzc up starts it again afterwards")
            gone: set[str] = set() if names else self._processes.keys() - {unit.name for unit in units}
            changed = {
                unit.name for unit in wanted
                if (process := self._processes.get(unit.name)) and not process.is_of(unit, environment)
            }  # fmt: skip
            self._end(gone | changed)
            started: dict[str, list[LabProcess]] = {}
            for unit in wanted:
                for before in [kind for kind in started if kind != unit.kind]:
                    self._settle(started.pop(before))
                if self._is_ending():
                    return
                if unit.name not in self._processes:
                    made = LabProcess(
                        unit, file.folder, environment, self._places.log_of(unit.name), file.lab.grace
                    )
                    self._processes[unit.name] = made
                    started.setdefault(unit.kind, []).append(made)
            for processes in started.values():
                self._settle(processes)
        self._started.set()

    def started(self) -> bool:
        """True when everything that was asked for first runs, or has ended once."""
        return self._started.is_set()

    def status(self) -> list[Mapping[str, Any]]:
        """What each process does; see `LabProcess.report`."""
        return [process.report() for process in list(self._processes.values())]

    def restart(self, names: list[str]) -> None:
        """End these, all for none, and start them again; those that had ended are started.

        Raises:
            ConfigError: for a name that the lab does not have.
        """
        with self._lock:
            meant = self._named(names)
            if ended := [name for name in names if name not in self._processes]:
                self.up(ended)
            for process in meant:
                process.restart()
            self._settle(meant, max((process.grace for process in meant), default=0.0))

    def down(self, names: list[str]) -> None:
        """End these; all, and the supervisor itself, for none.

        Raises:
            ConfigError: for a name that the lab does not have.
        """
        if not names:
            self._ended.set()
            return
        with self._lock:
            self._end({process.unit.name for process in self._named(names)})

    def wait_end(self, timeout: float) -> bool:
        """Wait until `down` was asked for."""
        return self._ended.wait(timeout)

    def close(self) -> None:
        """End every process; servers first, then what records them. Nothing is started any more."""
        self._ended.set()
        with self._lock:
            self._end(self._processes.keys())

    def _named(self, names: list[str]) -> list[LabProcess]:
        if ended := [name for name in names if name not in self._processes]:
            chosen(units_of(read_lab(self._path)), ended)
        return [process for name, process in self._processes.items() if not names or name in names]

    def _end(self, names: Iterable[str]) -> None:
        gone = set(names)
        for kinds in ENDING:
            ending = [
                each for name, each in self._processes.items() if name in gone and each.unit.kind in kinds
            ]
            for process in ending:
                del self._processes[process.unit.name]
                process.stop()
            for process in ending:
                process.join()

    def _is_ending(self) -> bool:
        return self._ended.is_set() or self._told()

    def _settle(self, processes: list[LabProcess], more: float = 0.0) -> None:
        """Wait until all of these run or have ended once, for `SETTLE` and so many seconds more in all."""
        deadline = time.monotonic() + SETTLE + more
        for process in processes:
            while not process.wait_settled(LOOK) and time.monotonic() < deadline and not self._is_ending():
                pass
