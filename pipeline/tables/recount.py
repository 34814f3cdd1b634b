"""The state of tables, counted anew from what is stored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .. import missing
from .partition_writer import PartitionWriter
from .state import State, Topic
from .summary import File, Report
from .work import Workers, shared

try:
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

_WHOLE = (
    "recorder", "offset", "publisher", "name", "topic", "epoch", "sequence", "message_id", "received_at",
    "sent_at", "value_double", "value_long",
)  # fmt: skip

_OFFSETS = ("recorder", "offset", "received_at")


class Stored(NamedTuple):
    """Stored files for one worker."""

    number: int
    rows: int
    places: tuple[str, ...]


class Count:
    """Function of workers: what a report says of stored rows; nothing is written. Can be pickled.

    Args:
        root: of the tables.
        width: of the windows in µs; 0 for none.
    """

    def __init__(self, root: Path, width: int) -> None:
        self._root, self._width = root, width

    def __call__(self, stored: Stored) -> Report:
        """Count the rows of some files of ``notifications`` and, their offsets alone, of ``quarantine``."""
        writer = PartitionWriter(None, stored.number, self._width)
        for place in stored.places:
            whole = place.startswith("notifications/")
            with pq.ParquetFile(self._root / place, coerce_int96_timestamp_unit="us") as file:
                for batch in file.iter_batches(columns=list(_WHOLE if whole else _OFFSETS)):
                    writer.note(batch)
                    if whole:
                        writer.keep(batch)
        return writer.end()


def count(root: Path, workers: Workers, files: Iterable[File], width: int) -> list[Report]:
    """Reports of stored rows, in order.

    Args:
        root: of the tables.
        workers: that read.
        files: of ``notifications`` and ``quarantine``; others are passed over.
        width: of the windows in µs; 0 for none.
    """
    wanted = [each for each in files if each.table in ("notifications", "quarantine")]
    rows = sum(each.rows for each in wanted)
    parts = shared(wanted, workers.count(rows), lambda each: each.rows)
    tasks = [
        Stored(number, sum(each.rows for each in part), tuple(each.place for each in part))
        for number, part in enumerate(parts)
    ]
    return sorted(workers.run(Count(root, width), tasks), key=lambda report: report.task)


def recount(root: Path, workers: Workers, files: Iterable[File], before: State) -> State:
    """The state of what is stored.

    Args:
        root: of the tables.
        workers: that read.
        files: that count.
        before: the state until now: what cannot be counted anew is taken from it.
    """
    made = State()
    made.offsets, made.damaged, made.journal = before.offsets, before.damaged, before.journal
    for report in count(root, workers, files, 0):
        made.absorb(report)
    made.width, made.windows, made.closed = before.width, before.windows, before.closed
    made.too_late = before.too_late
    keep_counts(before, made)
    return made


def keep_counts(before: State, made: State) -> None:
    """Take over the counts that no table holds."""
    for key, topic in made.topics.items():
        one = before.topics.get(key, Topic())
        topic.late, topic.duplicates = one.late, one.duplicates
