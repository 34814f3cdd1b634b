"""One batch of segments into the tables, exactly once.

::

    segments ─ workers: verify, decode, judge, file ─▶ stage ─ leave out copies ─▶ tables ─▶ commit log
                                    └─ reports ─▶ driver

What the workers wrote becomes visible by renames, and counts when the commit log says so. Nothing that grows
with the rows comes to the driver: a report has a few numbers per publisher and topic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from ...protocol import limits
from ..alarm_rules import AlarmRules
from ..decoding.decode import Decoder
from .again import AGAIN, Again, Filed
from .apart import apart
from .commit_log import Commit
from .partition_writer import ANNOUNCED, in_order
from .state import State
from .summary import Copies, Damage, Report
from .unread import Segment
from .work import Task, Work, WorkerDied, Workers, shared

log = logging.getLogger("pzc.pipeline")


@dataclass(frozen=True)
class Settings:
    """How batches are worked on.

    Attributes:
        decoder: of `decode.make_decoder`.
        rules: whose violations are alarms.
    """

    decoder: Decoder
    rules: AlarmRules = field(default_factory=AlarmRules)


@dataclass(frozen=True)
class Batch:
    """What one batch did.

    Attributes:
        number: of the batch, from 0 in each run.
        rows: of the journal.
        notifications: of them, verified and not stored before.
        quarantined: of them, refused.
        duplicates: of them, copies of what was stored.
        skipped: rows that a batch before had handled, not looked at again.
        alarms: violations of limits.
        damaged: segments that could not be read as a whole.
        missing: sequence numbers that are absent, of all that was ever stored.
        newest: last receipt of the batch's rows, Unix seconds; 0 without rows.
        seconds: that it took.
        announce: alarms for whoever wants them, as dictionaries; at most `ANNOUNCED`.
        unannounced: alarms beyond these.
    """

    number: int
    rows: int = 0
    notifications: int = 0
    quarantined: int = 0
    duplicates: int = 0
    skipped: int = 0
    alarms: int = 0
    damaged: int = 0
    missing: int = 0
    newest: float = 0.0
    seconds: float = 0.0
    announce: tuple[dict[str, Any], ...] = ()
    unannounced: int = 0


class Stage:
    """Lets workers file rows in a folder that nobody reads.

    Args:
        folder: of the stage, empty.
        workers: that do the work.
        settings: see `Settings`.
        label: how the names of the files begin.
        careful: let every task have a process of its own.

    Attributes:
        reports: what the workers told of the files that wait here.
    """

    def __init__(
        self, folder: Path, workers: Workers, settings: Settings, label: str, careful: bool = False
    ) -> None:
        self._folder, self._workers, self._settings, self._label = folder, workers, settings, label
        self._careful = careful
        self.reports: list[Report] = []
        self._copies: list[Copies] = []
        self._duplicates = 0

    def take(
        self,
        segments: Sequence[Segment],
        handled: Mapping[str, list[int]],
        times: tuple[int, int] | None = None,
    ) -> None:
        """File the rows of segments.

        Args:
            segments: in order.
            handled: offsets that are in the tables, as ranges by recorder.
            times: first and last receipt of the rows that are wanted, µs since 1970; None for all.
        """
        parts = shared(segments, self._workers.count(sum(each.rows for each in segments)), lambda e: e.rows)
        tasks = [
            Task(number, sum(e.rows for e in part), tuple(e.path for e in part), dict(handled), times)
            for number, part in enumerate(parts)
        ]
        own = self._settings
        refused = limits.current.stored_refused // max(1, len(tasks))
        work = Work(own.decoder, self._folder, self._label, own.rules, refused)
        self.reports = sorted(self._done(work, tasks), key=lambda report: report.task)

    def _done(self, work: Work, tasks: Sequence[Task]) -> list[Report]:
        if self._careful:
            return apart(work, tasks)
        try:
            return self._workers.run(work, tasks)
        except WorkerDied as exc:
            log.warning("%s; its rows are looked at by processes of their own", exc)
            return apart(work, tasks)

    def leave_out_copies(self, state: State) -> None:
        """Write again what holds rows that are stored, or that another task has filed as well."""
        numbers = state.repeated(self.reports)
        offsets = state.repeated_offsets(report for report in self.reports if report.filed("quarantine"))
        ids = state.repeated_ids(self.reports)
        self._copies = [one for copies in numbers.values() for one in copies]
        tasks = {report.task: report for report in self.reports}
        drops = [
            Filed.with_copies(report, numbers.get(task, ()), ids.get(task, ()), offsets.get(task, {}))
            for task, report in tasks.items()
            if task in {*numbers, *ids, *offsets}
        ]
        if not drops:
            return
        without = Again(self._folder, self._label, self._settings.rules)
        again = {report.task: report for report in self._workers.run(without, drops)}
        for filed in drops:
            report, other = tasks[filed.task], again[filed.task]
            for place in filed.places:
                (self._folder / place).unlink()
            for file in other.files:
                (self._folder / AGAIN / file.place).replace(self._folder / file.place)
            before = report.filed("notifications")
            filed.exchange(report, other)
            self._duplicates += before - report.filed("notifications")

    def commit(self, damaged: Sequence[Damage] = ()) -> Commit:
        """For the commit log; with segments that were found to be damaged before workers got them."""
        now = time.time_ns() // 1000
        found = [*damaged, *chain.from_iterable(report.damaged for report in self.reports)]
        bare = [
            msgspec.structs.replace(report, files=[], announce=[], damaged=[], days=[])
            for report in self.reports
        ]
        return Commit(
            0,
            added=[file for report in self.reports for file in report.files],
            reports=bare,
            copies=self._copies,
            damaged=[msgspec.structs.replace(one, found=now) for one in found],
        )

    def batch(self, number: int, state: State, commit: Commit, seconds: float) -> Batch:
        """For people; the state is the one behind the commit."""
        reports = self.reports
        announce = sorted(chain.from_iterable(report.announce for report in reports), key=in_order)[
            :ANNOUNCED
        ]
        return Batch(
            number,
            rows=sum(report.rows for report in reports),
            notifications=sum(report.filed("notifications") for report in reports),
            quarantined=sum(report.filed("quarantine") for report in reports),
            duplicates=self._duplicates + sum(report.repeated for report in reports),
            skipped=sum(report.skipped for report in reports),
            alarms=sum(report.filed("alarms") for report in reports),
            damaged=len(commit.damaged),
            missing=state.missing(),
            newest=max((report.newest for report in reports), default=0) / 1e6,
            seconds=seconds,
            announce=tuple(announce),
            unannounced=sum(report.announced for report in reports) - len(announce),
        )
