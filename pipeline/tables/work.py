"""What a worker does with segments: one function, `Work`, from a task to a report.

::

    for each row:   blob fetched → signature → restricted decoder → columns → copy? → rules → file

A worker writes below a folder that nobody reads; the driver moves the files to their tables when all tasks
have reported. A file is called after the batch and the task, so a task that is done twice makes files of the
same names. No Spark in here: `Workers` say where tasks run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from ...protocol.errors import JournalError
from ..alarm_rules import AlarmRules
from ..arrow import pa
from ..decoding.decode import Decoder, refused
from ..recording.reading import SegmentDamaged, SegmentGone, batches, part
from .files import Files
from .interval_set import IntervalSet, note_offsets
from .partition_writer import PartitionWriter, unhandled
from .summary import Damage, Report, micros, offsets_of


class Sized(Protocol):
    """A task of which it is known how much work it is."""

    @property
    def rows(self) -> int:
        """That are to be read."""
        ...


_DIED = "WorkerDied", "a process that verified or decoded this row has died, or took too long"

TaskT = TypeVar("TaskT", bound=Sized)
ItemT = TypeVar("ItemT")


class WorkerDied(JournalError):
    """A process has ended in the middle of a task, again and again."""


class Workers(Protocol):
    """Where tasks run."""

    def is_here(self, rows: int) -> bool:
        """Whether so many rows are worked on in this process."""
        ...

    def count(self, rows: int) -> int:
        """Tasks that so many rows are worth, at least one."""
        ...

    def check(self) -> None:
        """Raise JournalError when what was started to run tasks is gone."""
        ...

    def run(self, function: Callable[[TaskT], Report], tasks: Sequence[TaskT]) -> list[Report]:
        """What the function, which can be pickled, tells of each task, in any order.

        Raises:
            JournalError: when a task cannot be done.
            WorkerDied: when a worker died of one.
        """
        ...


class Inline:
    """Tasks run in this thread, one after the other."""

    def is_here(self, rows: int) -> bool:
        """Always."""
        return True

    def count(self, rows: int) -> int:
        """One task."""
        return 1

    def check(self) -> None:
        """Nothing was started."""

    def run(self, function: Callable[[TaskT], Report], tasks: Sequence[TaskT]) -> list[Report]:
        """See `Workers`; what a task raises is raised."""
        return [function(task) for task in tasks]


def shared(items: Sequence[ItemT], count: int, size: Callable[[ItemT], int]) -> list[list[ItemT]]:
    """Items, in order, in at most so many parts of about the same size, none of them empty."""
    share, filled = sum(map(size, items)) / count, 0
    parts: list[list[ItemT]] = []
    for item in items:
        if not parts or (len(parts) < count and filled + size(item) / 2 > share * len(parts)):
            parts.append([])
        parts[-1].append(item)
        filled += size(item)
    return parts


class Task(NamedTuple):
    """Segments for one worker.

    Attributes:
        number: of the task, by which its files are called.
        rows: of the segments.
        paths: of the segments.
        handled: offsets that are in the tables, as ranges by recorder.
        times: first and last receipt of the rows that are wanted, µs since 1970; None for all.
        first: row of the segment with which it begins, when it is one part of one segment.
        refused: whether its rows are filed in quarantine without a look at them.
    """

    number: int
    rows: int
    paths: tuple[str, ...]
    handled: dict[str, list[int]]
    times: tuple[int, int] | None = None
    first: int | None = None
    refused: bool = False

    def halves(self, number: int) -> list[Task]:
        """Two tasks in place of this one, numbered from there on; of a single row one, which refuses it."""
        if len(self.paths) > 1:
            middle = len(self.paths) // 2
            parts = self.paths[:middle], self.paths[middle:]
            return [self._replace(number=number + n, paths=part) for n, part in enumerate(parts)]
        if self.rows < 2:
            return [self._replace(number=number, refused=True)]
        middle, first = self.rows // 2, self.first or 0
        return [
            self._replace(number=number, rows=middle, first=first),
            self._replace(number=number + 1, rows=self.rows - middle, first=first + middle),
        ]


class Work:
    """Verifies, decodes, judges and files the rows of segments; can be pickled.

    Args:
        decoder: of `decode.make_decoder`.
        stage: folder to write to, which every worker reaches.
        label: of the batch.
        rules: whose violations are alarms; None for none.
        refused: rows of a task that are filed in quarantine at most.
    """

    def __init__(
        self,
        decoder: Decoder,
        stage: Path,
        label: str,
        rules: AlarmRules | None = None,
        refused: int = sys.maxsize,
    ) -> None:
        self._decoder, self._stage, self._label = decoder, stage, label
        self._rules, self._refused = rules, refused

    def __call__(self, task: Task) -> Report:
        """Work on the segments of a task; what is wrong with one of them is in the report.

        Raises:
            JournalError: for a segment of a newer form.
            OSError: when the files cannot be written.
        """
        files = Files(self._stage, self._label, task.number)
        try:
            writer = PartitionWriter(files, task.number, self._rules, self._refused)
            handled = {recorder: IntervalSet(runs) for recorder, runs in task.handled.items()}
            for path in map(Path, task.paths):
                before = writer.report.rows
                try:
                    rows = batches(path)
                    if task.first is not None:
                        rows = part(rows, task.first, task.first + task.rows)
                    self._take(rows, task, handled, writer)
                except SegmentGone:  # the one that stands for it has its offsets
                    continue
                except SegmentDamaged as exc:
                    writer.report.damaged.append(Damage(path.name, exc.rows, exc.read, exc.reason))
                self._tell_unfiled(path, writer.report.rows - before, writer)
            return writer.end()
        finally:
            files.discard()

    @staticmethod
    def _tell_unfiled(path: Path, rows: int, writer: PartitionWriter) -> None:
        told, writer.unfiled = writer.unfiled, Counter()
        if told:
            what = ", ".join(f"{count} {error}" for error, count in told.most_common())
            reason = f"more refused rows than quarantine takes of a batch: {what}"
            writer.report.damaged.append(Damage(path.name, rows, rows - told.total(), reason))

    def _take(
        self,
        rows: Iterable[pa.RecordBatch],
        task: Task,
        handled: dict[str, IntervalSet],
        writer: PartitionWriter,
    ) -> None:
        for batch in rows:
            wanted = batch if task.times is None else _between(batch, *task.times)
            fresh = unhandled(wanted, handled)
            writer.report.skipped += wanted.num_rows - fresh.num_rows
            if fresh.num_rows:
                for decoded in [refused(fresh, *_DIED)] if task.refused else self._decoder([fresh]):
                    writer.take(decoded)
                note_offsets(handled, offsets_of(fresh))


def _between(batch: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    received = micros(batch.column("received_at"))
    return batch.filter(pa.array(np.logical_and(received >= first, received <= last)))
