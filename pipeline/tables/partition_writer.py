"""Decoded rows of one task: copies left out, the rest filed and counted."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...protocol import limits
from ..alarm_rules import AlarmRules
from ..arrow import pa, pc
from ..schema import DAY, NOTIFICATIONS, QUARANTINE
from .files import Files
from .interval_set import IntervalSet, note_offsets
from .known_ids import digest_of
from .summary import Ints, Report, codes, micros, numbers_of, offsets_of, parts_of, runs_of, series_of

FLUSH_ROWS = 150_000
"""Rows of a task that wait in memory before they are written; fewer large ones (`limits.stored_batch`)."""


ANNOUNCED = 1000
"""Alarms of one batch that are told to whoever wants them; the rest is counted."""


def in_order(alarm: Mapping[str, Any]) -> tuple[Any, ...]:
    """By which alarms are told."""
    return alarm["received_at"], alarm["sequence"] is None, alarm["sequence"]


class PartitionWriter:
    """Notifications and quarantine of one task: copies are left out, the rest is judged and filed.

    Args:
        files: to write to; None writes nothing and only counts.
        task: number of the task.
        rules: that judge what is filed.
        refused: rows that are filed in quarantine at most.

    Attributes:
        report: of what was done.
        unfiled: refused rows beyond these, by error.
    """

    def __init__(
        self,
        files: Files | None,
        task: int,
        rules: AlarmRules | None = None,
        refused: int = sys.maxsize,
    ) -> None:
        self.report, self.unfiled = Report(task), Counter[str]()
        self._room = refused
        self._files, self._rules = files, rules or AlarmRules()
        self._seen: dict[tuple[object, ...], IntervalSet] = {}
        self._ids: set[bytes] = set()
        self._offsets: dict[str, IntervalSet] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def take(self, decoded: pa.RecordBatch) -> None:
        """Rows of `schema.DECODED`."""
        self.note(decoded)
        error = decoded.column("error")
        good = decoded if error.null_count == len(decoded) else decoded.filter(pc.is_null(error))
        if good.num_rows < decoded.num_rows:
            self.refuse(decoded.filter(pc.is_valid(error)).select(QUARANTINE.names))
        self.keep(good.select(NOTIFICATIONS.names))

    def note(self, rows: pa.RecordBatch) -> None:
        """Count rows, whatever becomes of them."""
        report = self.report
        report.rows += rows.num_rows
        note_offsets(self._offsets, offsets_of(rows))
        received = micros(rows.column("received_at"))
        report.newest = max(report.newest, int(received.max(initial=0)))
        report.days = sorted({*report.days, *np.unique(received // DAY).tolist()})

    def keep(self, good: pa.RecordBatch) -> None:
        """Rows of `schema.NOTIFICATIONS`."""
        if good.num_rows:
            self._waiting.append(good)
        self._rows += good.num_rows
        self._bytes += good.nbytes
        if self._rows >= FLUSH_ROWS or self._bytes >= limits.current.stored_batch:
            self.flush()

    def refuse(self, bad: pa.RecordBatch) -> None:
        """Rows of `schema.QUARANTINE`."""
        filed = bad.slice(0, self._room)
        self._room -= filed.num_rows
        self.unfiled.update(bad.slice(filed.num_rows).column("error").to_pylist())
        if self._files is not None and filed.num_rows:
            self._files.write("quarantine", pa.Table.from_batches([filed]))

    def flush(self) -> None:
        """File what waits."""
        waiting, self._waiting = self._waiting, []
        self._rows = self._bytes = 0
        if not waiting:
            return
        table = pa.Table.from_batches(waiting)
        once = self._once(table)
        report = self.report
        report.repeated += table.num_rows - once.num_rows
        report.parts += parts_of(once)
        if self._files is not None and once.num_rows:
            self._files.write("notifications", once)
            self._alarm(self._files, once)

    def _alarm(self, files: Files, once: pa.Table) -> None:
        alarms = self._rules.judge(once)
        if alarms.num_rows:
            files.write("alarms", alarms)
            self.announce(alarms)

    def announce(self, alarms: pa.Table) -> None:
        """Tell of alarms (`schema.ALARMS`) that are filed."""
        report = self.report
        earliest, announced = self._rules.announcements(alarms, ANNOUNCED)
        report.announced += announced
        report.announce = sorted([*report.announce, *earliest], key=in_order)[:ANNOUNCED]

    def _once(self, table: pa.Table) -> pa.Table:
        """The rows that are no copies of ones before them in this task."""
        key, sequence = series_of(table), numbers_of(table.column("sequence"))
        keep = np.ones(table.num_rows, np.bool_)
        self._drop_copies(table, key, sequence, keep)
        unnumbered = np.flatnonzero(sequence < 0)
        if len(unnumbered):
            ids = table.column("message_id").take(pa.array(unnumbered)).to_pylist()
            fresh: list[bytes] = []
            for row, digest in zip(unnumbered.tolist(), map(digest_of, ids), strict=True):
                keep[row] = digest not in self._ids
                if keep[row]:
                    self._ids.add(digest)
                    fresh.append(digest)
            self.report.ids += b"".join(fresh)
        if keep.all():
            return table
        self._note_copies(table.filter(pa.array(~keep)))
        return table.filter(pa.array(keep))

    def _note_copies(self, copies: pa.Table) -> None:
        series = zip(copies["publisher"].to_pylist(), copies["topic"].to_pylist(), strict=True)
        self.report.copies += [(*one, count) for one, count in Counter(series).items()]

    def _drop_copies(self, table: pa.Table, key: Ints, sequence: Ints, keep: np.ndarray) -> None:
        order = np.lexsort((sequence, key))
        own, number = key[order], sequence[order]
        same = (np.diff(own, prepend=-1) == 0) & (np.diff(number, prepend=-1) == 0) & (number >= 0)
        keep[order[same]] = False
        bounds = np.flatnonzero(np.diff(own, prepend=-1))
        columns = [table.column(name) for name in ("publisher", "epoch", "topic")]
        for begin, end in zip(bounds.tolist(), [*bounds[1:].tolist(), len(order)], strict=True):
            rows = order[begin:end]
            numbers = sequence[rows]
            series = tuple(column[int(rows[0])].as_py() for column in columns)
            seen = self._seen.setdefault(series, IntervalSet())
            drop_seen(seen, rows, numbers, keep)

    def forget(self, seen: Mapping[tuple[object, ...], IntervalSet], ids: Iterable[bytes]) -> None:
        """Leave out these numbers, by publisher, epoch and topic, and these ids (`known_ids`)."""
        self._seen.update(seen)
        self._ids.update(ids)

    def end(self) -> Report:
        """Finish the files and tell."""
        self.flush()
        self.report.offsets = {recorder: runs.flat() for recorder, runs in self._offsets.items()}
        if self._files is not None:
            self.report.files = self._files.close()
        return self.report


def drop_seen(seen: IntervalSet, rows: Ints, numbers: Ints, keep: np.ndarray) -> None:
    """Unmark the rows whose numbers (in ascending order) were seen, and note the others as seen."""
    runs = IntervalSet(runs_of(numbers[numbers >= 0]))
    for low, high in list(seen.common(runs)):
        keep[rows[(numbers >= low) & (numbers <= high)]] = False
    seen.update(runs)


def unhandled(batch: pa.RecordBatch, handled: Mapping[str, IntervalSet]) -> pa.RecordBatch:
    """The rows whose offsets were not handled yet, each offset once."""
    if not batch.num_rows:
        return batch
    keep = np.ones(batch.num_rows, np.bool_)
    place, recorders = codes(batch.column("recorder"))
    offset = batch.column("offset").to_numpy(zero_copy_only=False)
    for number, recorder in enumerate(recorders):
        rows = np.flatnonzero(place == number)
        own = offset[rows]
        if (np.diff(own) <= 0).any():
            keep[rows] = False
            keep[rows[np.unique(own, return_index=True)[1]]] = True
        for low, high in handled.get(str(recorder), IntervalSet()).overlap(int(own.min()), int(own.max())):
            keep[rows[(own >= low) & (own <= high)]] = False
    return batch if keep.all() else batch.filter(pa.array(keep))
