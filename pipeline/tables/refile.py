"""Staged files of some tasks, written again without what others have stored before."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .. import missing
from ..alarm_rules import AlarmRules
from ..schema import NOTIFICATIONS, QUARANTINE
from .files import Files
from .interval_set import IntervalSet
from .partition_writer import FLUSH_ROWS, PartitionWriter, unhandled
from .summary import Copies, Report

try:
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

AGAIN = "again"
"""Folder in the stage."""


class Drop(NamedTuple):
    """What one task filed that others have filed before.

    Attributes:
        task: its number.
        rows: that it filed.
        places: of its files.
        copies: numbers.
        ids: of notifications without a number (`known_ids`).
        offsets: of rows in quarantine, as ranges by recorder.
    """

    task: int
    rows: int
    places: tuple[str, ...]
    copies: tuple[Copies, ...]
    ids: tuple[bytes, ...]
    offsets: dict[str, list[int]]


class Refile:
    """Function of workers: the report of a task without the rows of a `Drop`; can be pickled.

    Args:
        stage: folder that holds the files; the others are in its folder `AGAIN` then.
        label: of the batch.
        width: of the windows in µs.
        rules: that judge what is left.
    """

    def __init__(self, stage: Path, label: str, width: int, rules: AlarmRules) -> None:
        self._stage, self._label, self._width, self._rules = stage, label, width, rules

    def __call__(self, drop: Drop) -> Report:
        """Write the files of one task again."""
        seen: dict[tuple[object, ...], IntervalSet] = {
            (each.publisher, each.epoch, each.topic): IntervalSet(each.runs) for each in drop.copies
        }
        handled = {recorder: IntervalSet(runs) for recorder, runs in drop.offsets.items()}
        files = Files(self._stage / AGAIN, self._label, drop.task)
        try:
            writer = PartitionWriter(files, drop.task, self._width, self._rules)
            writer.forget(seen, drop.ids)
            for place in drop.places:
                table = place.partition("/")[0]
                if table == "alarms":  # judged again
                    continue
                with pq.ParquetFile(self._stage / place) as file:
                    for batch in file.iter_batches(FLUSH_ROWS):
                        if table == "quarantine":
                            writer.refuse(unhandled(batch.cast(QUARANTINE), handled))
                        else:
                            writer.keep(batch.cast(NOTIFICATIONS))
            return writer.end()
        finally:
            files.discard()
