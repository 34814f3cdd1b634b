"""Processes: what the supervisor of a lab file knows, beside what agents tell of themselves."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...lab.logs import LogReader
from ...lab.places import Places
from ...protocol.contents import as_list, as_table
from ...protocol.errors import PzcError
from ..lab import asked
from .collector import Collector
from .watched import number, short

PATIENCE = 2.0
"""Seconds for the supervisor's answer."""

_TEXTS, _NUMBERS = ("name", "kind", "state"), ("since", "pid", "restarts", "due")


class Processes:
    """Puts the processes of a lab file into a collector's state; nothing while the lab is not up.

    Args:
        collector: keeps the state.
        path: of the lab file.
    """

    def __init__(self, collector: Collector, path: Path) -> None:
        self._collector = collector
        self._places = Places(path)

    def look(self) -> None:
        """Ask the supervisor once."""
        rows: list[dict[str, Any]] = []
        with suppress(PzcError), asked(self._places, PATIENCE) as lab:
            rows = [self._row(as_table(told)) for told in as_list(lab.status())]
        with self._collector.state() as state:
            state.processes = rows

    def _row(self, told: dict[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {name: short(told.get(name)) for name in _TEXTS}
        row |= {name: number(told.get(name)) for name in _NUMBERS}
        again = f"again in {row['due']:.0f} s: " if row["state"] == "waiting" else ""
        row["does"] = "" if row["state"] == "running" else again + short(told.get("last"), 500)
        if row["kind"] == "pipeline":
            row["lag"] = self._lag(row["name"])
        return row

    def _lag(self, name: str) -> float | None:
        """How far behind the pipeline's last batch was, in seconds; None before its first one with rows."""
        for line in reversed(LogReader(self._places.log_of(name)).last(50)):
            with suppress(ValueError):
                batch = as_table(json.loads(line[line.index("{") :]))
                if batch.get("lag") is not None:
                    return number(batch["lag"])
        return None
