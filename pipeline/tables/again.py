"""Rows in files of the tables or of the stage: counted again, or written again without some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ..alarm_rules import AlarmRules
from ..arrow import pa, pq
from ..schema import NOTIFICATIONS, QUARANTINE
from .files import Files, agent_of, folder_of_agent
from .interval_set import IntervalSet
from .partition_writer import FLUSH_ROWS, PartitionWriter, unhandled
from .state import State
from .summary import Copies, File, Part, Report
from .work import Workers, shared

AGAIN = "again"
"""Folder in the stage for what is written again."""

_COUNTED = {
    "notifications": [
        "recorder", "offset", "publisher", "name", "topic", "epoch", "sequence", "message_id", "received_at",
        "sent_at", "value_double", "value_long",
    ],
    "quarantine": ["recorder", "offset", "received_at"],
}  # fmt: skip


class Filed(NamedTuple):
    """Files for one worker, and what others have filed before.

    Attributes:
        task: its number.
        rows: of the files.
        places: of the files.
        copies: numbers to leave out.
        ids: of notifications without a number (`known_ids`), likewise.
        offsets: of rows in quarantine, as ranges by recorder, likewise.
        agents: folders of those whose notifications are in the files.
        told: places of alarms that stay as they are, and are told again.
    """

    task: int
    rows: int
    places: tuple[str, ...]
    copies: tuple[Copies, ...] = ()
    ids: tuple[bytes, ...] = ()
    offsets: Mapping[str, list[int]] = {}
    agents: frozenset[str] = frozenset()
    told: tuple[str, ...] = ()

    @classmethod
    def with_copies(
        cls, report: Report, copies: Iterable[Copies], ids: Iterable[bytes], offsets: Mapping[str, list[int]]
    ) -> Filed:
        """What of a task's files has to be written again: all of the agents that have copies in it."""
        copies, ids = tuple(copies), tuple(ids)
        series = {(each.publisher, each.epoch, each.topic) for each in copies}
        agents = frozenset(
            _agent(part) for part in report.parts if ids or (part.publisher, part.epoch, part.topic) in series
        )
        found, told = list[File](), list[str]()
        for file in report.files:
            if bool(offsets) if file.table == "quarantine" else file.place.split("/")[2] in agents:
                found.append(file)
            elif file.table == "alarms" and report.announced:
                told.append(file.place)
        places = tuple(file.place for file in found)
        rows = sum(file.rows for file in found)
        return cls(report.task, rows, places, copies, ids, offsets, agents, tuple(told))

    def exchange(self, report: Report, other: Report) -> None:
        """Let a task's report tell of what another one wrote in the place of these files."""
        gone = {*self.places}
        report.files = [file for file in report.files if file.place not in gone] + other.files
        report.parts = [part for part in report.parts if _agent(part) not in self.agents] + other.parts
        if self.ids:
            report.ids = other.ids
        report.announced, report.announce = other.announced, other.announce


def _agent(part: Part) -> str:
    return folder_of_agent(agent_of(part.name, part.publisher))


class Again:
    """Function of workers: the report of filed rows without those that are to be left out; can be pickled.

    Args:
        root: folder of the tables, or the stage.
        label: of the batch; then what is left is written to the folder `AGAIN`. Empty only counts.
        rules: that judge what is written.
    """

    def __init__(self, root: Path, label: str = "", rules: AlarmRules | None = None) -> None:
        self._root, self._label, self._rules = root, label, rules

    def __call__(self, filed: Filed) -> Report:
        """Work on some files of ``notifications`` and ``quarantine``; alarms are judged again."""
        files = Files(self._root / AGAIN, self._label, filed.task) if self._label else None
        try:
            writer = PartitionWriter(files, filed.task, self._rules)
            writer.forget(
                {(each.publisher, each.epoch, each.topic): IntervalSet(each.runs) for each in filed.copies},
                filed.ids,
            )
            handled = {recorder: IntervalSet(runs) for recorder, runs in filed.offsets.items()}
            for place in filed.places:
                table = place.partition("/")[0]
                if table in _COUNTED:
                    self._take(table, place, handled, writer, files is None)
            for place in filed.told:
                for batch in self._batches(place):
                    writer.announce(pa.Table.from_batches([batch]))
            return writer.end()
        finally:
            if files is not None:
                files.discard()

    def _take(
        self, table: str, place: str, handled: dict[str, IntervalSet], writer: PartitionWriter, counted: bool
    ) -> None:
        for batch in self._batches(place, _COUNTED[table] if counted else None):
            if counted:
                writer.note(batch)
            if table == "notifications":
                writer.keep(batch if counted else batch.cast(NOTIFICATIONS))
            elif not counted:
                writer.refuse(unhandled(batch.cast(QUARANTINE), handled))

    def _batches(self, place: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self._root / place, coerce_int96_timestamp_unit="us") as file:
            yield from file.iter_batches(FLUSH_ROWS, columns=columns)


def count(root: Path, workers: Workers, files: Iterable[File]) -> list[Report]:
    """Reports of stored rows, in order.

    Args:
        root: of the tables.
        workers: that read.
        files: of the tables.
    """
    wanted = [each for each in files if each.table in _COUNTED]
    parts = shared(wanted, workers.count(sum(each.rows for each in wanted)), lambda each: each.rows)
    tasks = [
        Filed(number, sum(each.rows for each in part), tuple(each.place for each in part))
        for number, part in enumerate(parts)
    ]
    return sorted(workers.run(Again(root), tasks), key=lambda report: report.task)


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
    made.origins = before.origins
    for report in count(root, workers, files):
        made.absorb(report)
    keep_counts(before, made)
    return made


def keep_counts(before: State, made: State) -> None:
    """Take over the counts that no table holds."""
    for key in made.topics:
        one = before.topic(*key)
        with made.changed(*key) as topic:
            topic.late, topic.duplicates = one.late, one.duplicates
