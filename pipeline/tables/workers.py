"""What Spark's Python workers run: rows filed as Parquet, and a report to the driver.

A worker writes below a folder that nobody reads; the driver moves the files to their table when all
tasks have reported. A file is called after the batch and the task, so a batch that is run again makes files
of the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .. import missing
from ..alarm_rules import AlarmRules
from ..decoding.decode import Decoder
from ..schema import NOTIFICATIONS, QUARANTINE
from .files import Files
from .interval_set import IntervalSet
from .partition_writer import FLUSH_ROWS, PartitionWriter, note_offsets, unhandled
from .summary import Report, encode, offsets_of

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

REPORTED = "report BINARY"
"""What the workers yield, as Spark DDL."""

_REPORTED = pa.schema([pa.field("report", pa.binary())])


class Stage:
    """Callable for ``mapInArrow``: journal rows are verified, decoded, filed, and reported.

    Args:
        decoder: of `decode.make_decoder`.
        stage: folder to write to, which every worker reaches.
        label: of the batch.
        width: of the windows in µs; 0 for none.
        handled: offsets by recorder that are in the tables already, as ranges.
        rules: that judge the notifications.
    """

    def __init__(
        self,
        decoder: Decoder,
        stage: Path,
        label: str,
        width: int,
        handled: Mapping[str, list[int]],
        rules: AlarmRules,
    ) -> None:
        self._decoder, self._stage, self._label, self._rules = decoder, stage, label, rules
        self._width, self._handled = width, dict(handled)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work on one partition."""

        def work(writer: PartitionWriter) -> None:
            handled = {recorder: IntervalSet(runs) for recorder, runs in self._handled.items()}
            for batch in batches:
                fresh = unhandled(batch, handled)
                writer.report.skipped += batch.num_rows - fresh.num_rows
                if fresh.num_rows:
                    for decoded in self._decoder([fresh]):
                        writer.take(decoded)
                    note_offsets(handled, offsets_of(fresh))

        yield _filed(work, self._stage, self._label, self._width, self._rules)


class Recount:
    """Callable for ``mapInArrow``: stored notifications are reported, and nothing is written.

    Args:
        width: of the windows in µs.
        offsets: True tells of the offsets alone; the rows need no other columns.
    """

    COLUMNS = (
        "recorder", "offset", "publisher", "name", "topic", "epoch", "sequence", "message_id", "received_at",
        "sent_at", "value_double", "value_long",
    )  # fmt: skip

    OFFSETS = ("recorder", "offset", "received_at")

    def __init__(self, width: int, offsets: bool = False) -> None:
        self._width, self._offsets = width, offsets

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with `COLUMNS`, or `OFFSETS`."""
        writer = PartitionWriter(None, _task(), self._width)
        for batch in batches:
            writer.note(batch)
            if not self._offsets:
                writer.keep(batch)
        yield told(writer.end())


def _filed(
    work: Callable[[PartitionWriter], None], stage: Path, label: str, width: int, rules: AlarmRules
) -> pa.RecordBatch:
    task = _task()
    files = Files(stage, label, task)
    try:
        writer = PartitionWriter(files, task, width, rules)
        work(writer)
        return told(writer.end())
    finally:
        files.discard()


def told(report: Report) -> pa.RecordBatch:
    """A report as the row that Spark takes to the driver."""
    return pa.RecordBatch.from_pydict({"report": [encode(report)]}, schema=_REPORTED)


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


class Drop(NamedTuple):
    """What one task filed that others have filed before.

    Attributes:
        numbers: publishers, epochs, topics and ranges of sequence numbers.
        ids: of notifications without a number (`known_ids`).
        offsets: of rows in quarantine, as ranges by recorder.
    """

    numbers: list[tuple[str, int | None, str, list[int]]]
    ids: list[bytes]
    offsets: dict[str, list[int]]


class Refile:
    """Callable for ``mapInArrow``: staged files of some tasks are written again without some of their rows.

    Args:
        stage: folder that holds them.
        label: of the batch.
        width: of the windows in µs.
        drops: what to leave out, by task.
        files: the staged files, by task.
        rules: that judge what is left.
    """

    def __init__(
        self,
        stage: Path,
        label: str,
        width: int,
        drops: Mapping[int, Drop],
        files: Mapping[int, list[str]],
        rules: AlarmRules,
    ) -> None:
        self._stage, self._label, self._width, self._rules = stage, label, width, rules
        self._drops, self._staged = dict(drops), dict(files)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each row's ``task`` names one task."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield told(self._again(task))

    def _again(self, task: int) -> Report:
        drop = self._drops[task]
        seen: dict[tuple[object, ...], IntervalSet] = {
            tuple(key): IntervalSet(runs) for *key, runs in drop.numbers
        }
        handled = {recorder: IntervalSet(runs) for recorder, runs in drop.offsets.items()}
        files = Files(self._stage / "again", self._label, task)
        try:
            writer = PartitionWriter(files, task, self._width, self._rules)
            writer.forget(seen, drop.ids)
            for place in self._staged[task]:
                if place.startswith("alarms/"):
                    continue  # they follow from the notifications that are left
                with pq.ParquetFile(self._stage / place) as file:
                    for batch in file.iter_batches(FLUSH_ROWS):
                        if place.startswith("quarantine/"):
                            writer.refuse(unhandled(batch.cast(QUARANTINE), handled))
                        else:
                            writer.keep(batch.cast(NOTIFICATIONS))
            return writer.end()
        finally:
            files.discard()
