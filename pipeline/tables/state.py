"""The state of the tables: what they hold of each publisher, as it follows from the reports of all batches.

By publisher, epoch and topic the sequence numbers that were seen, as ranges; by publisher and topic the
figures; and by recorder the offsets that were handled. It grows with publishers, topics and gaps, not with
rows. Only the driver has it.

It is the fold of the commit log: `State.apply` of one `Commit` after the other behind the content of a
checkpoint gives the same state, whenever it is done. No clock, no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from .commit_log import Commit
from .interval_set import IntervalSet, note_offsets
from .known_ids import KnownIds, each_of
from .origins import handled_by
from .quantile_sketch import Figures
from .summary import Cell, Copies, Damage, Part, Report

Key = tuple[str, "int | None", str]
KeyT = TypeVar("KeyT")


class Series(msgspec.Struct, array_like=True):
    """One publisher, epoch and topic: what was seen of it.

    Attributes:
        name: of the publisher.
        seen: sequence numbers.
        since: first receipt, µs since 1970.
    """

    name: str | None
    seen: IntervalSet
    since: int


class Topic(msgspec.Struct, array_like=True):
    """One publisher and topic: figures of everything that was stored."""

    name: str | None = None
    count: int = 0
    timed: int = 0
    first_sent: int | None = None
    last_sent: int | None = None
    late: int = 0
    duplicates: int = 0
    ages: Figures = msgspec.field(default_factory=Figures)
    values: Figures = msgspec.field(default_factory=Figures)


class State(msgspec.Struct):
    """See the module's docstring.

    Attributes:
        offsets: handled, by recorder; those of its journals before the last one beside it, see `origins`.
        origins: of these offsets, by recorder (see `recording.numbers`).
        series: by publisher, epoch and topic.
        topics: by publisher and topic, each packed (see `topic`), as most are of agents that have ended, and
            would take twenty times the memory.
        damaged: segments that could not be read as a whole.
        ids: of notifications without a number.
        journal: that the rows are from; empty when it was none that stays.
        absent: sequence numbers that are missing; None when they were not counted.
    """

    offsets: dict[str, IntervalSet] = {}
    series: dict[Key, Series] = {}
    topics: dict[tuple[str, str], msgspec.Raw] = {}
    damaged: list[Damage] = []
    ids: KnownIds = msgspec.field(default_factory=KnownIds)
    journal: str = ""
    absent: int | None = None
    origins: dict[str, str] = {}

    @classmethod
    def decode(cls, content: bytes) -> State:
        """The state that `encode` gave; `msgspec.MsgspecError` for other bytes."""
        return msgspec.msgpack.decode(content, type=cls, dec_hook=lambda kind, stored: kind(stored))

    def encode(self) -> bytes:
        """The state for a checkpoint."""
        return msgspec.msgpack.encode(self, enc_hook=lambda held: held.flat())

    def topic(self, publisher: str, name: str) -> Topic:
        """What is known of a topic; to be changed by `changed`."""
        packed = self.topics.get((publisher, name))
        return Topic() if packed is None else _unpacked(packed)

    @contextmanager
    def changed(self, publisher: str, name: str) -> Iterator[Topic]:
        """What is known of a topic, which is kept as it is behind the block."""
        topic = self.topic(publisher, name)
        yield topic
        self.topics[publisher, name] = msgspec.Raw(_packed(topic))

    def apply(self, commit: Commit) -> None:
        """Count what a commit tells of."""
        self.journal = self.journal if commit.journal is None else commit.journal
        self.offsets = handled_by(self.offsets, self.origins, commit.origins)
        self.origins.update(commit.origins)
        for copies in commit.copies:
            with self.changed(copies.publisher, copies.topic) as topic:
                topic.duplicates += IntervalSet(copies.runs).count
        for report in commit.reports:
            self.absorb(report)
            for publisher, name, count in report.copies:
                with self.changed(publisher, name) as topic:
                    topic.duplicates += count
        again = {damage.file for damage in commit.damaged}
        self.damaged = [damage for damage in self.damaged if damage.file not in again] + commit.damaged

    def repeated(self, reports: Iterable[Report]) -> dict[int, list[Copies]]:
        """What tasks filed that was in the tables, or filed by a task before them; nothing changes.

        Args:
            reports: in order of the tasks.

        Returns:
            By task, what has to be left out.
        """
        known = {key: one.seen for key, one in self.series.items()}
        found = _repeated(known, ((report.task, _runs_by_key(report)) for report in reports))
        return {task: [Copies(*key, runs) for key, runs in told.items()] for task, told in found.items()}

    def repeated_ids(self, reports: Iterable[Report]) -> dict[int, list[bytes]]:
        """As `repeated`, of notifications without a number: their ids by task."""
        fresh: set[bytes] = set()
        found: dict[int, list[bytes]] = {}
        for report in reports:
            for digest in each_of(report.ids):
                if digest in self.ids or digest in fresh:
                    found.setdefault(report.task, []).append(digest)
                fresh.add(digest)
        return found

    @staticmethod
    def repeated_offsets(reports: Iterable[Report]) -> dict[int, dict[str, list[int]]]:
        """Offsets that tasks had although a task before them had them, as ranges by task and recorder."""
        ranges = (
            (report.task, {recorder: IntervalSet(runs) for recorder, runs in report.offsets.items()})
            for report in reports
        )
        return _repeated({}, ranges)

    def absorb(self, report: Report) -> None:
        """Count what a task filed; the numbers must not overlap with anything that was seen."""
        note_offsets(self.offsets, report.offsets)
        self.ids.add(report.ids)
        for part in report.parts:
            self._absorb(part)

    def _absorb(self, part: Part) -> None:
        with self.changed(part.publisher, part.topic) as topic:
            topic.name = max(filter(None, (topic.name, part.name)), default=None)
            topic.late += self._note(part)
            _add(topic, part.cell)

    def _note(self, part: Part) -> int:
        """The numbers are seen now; how many of them are less than one that was seen before."""
        key = (part.publisher, part.epoch, part.topic)
        one = self.series.get(key)
        if one is None:
            one = self.series[key] = Series(part.name, IntervalSet(), part.oldest)
        seen, late = one.seen, 0
        greatest, before = seen.last, seen.missing
        for first, last in IntervalSet(part.runs):
            if greatest is not None and first < greatest:
                late += min(last, greatest) - first + 1
            seen.add(first, last)
        if self.absent is not None:
            self.absent += seen.missing - before
        one.name, one.since = part.name or one.name, min(one.since, part.oldest)
        return late

    def gaps(self) -> Iterator[tuple[str, str | None, str, int | None, int, int, int]]:
        """Rows of `schema.GAPS`."""
        for (publisher, epoch, topic), one in self.series.items():
            for first, last in one.seen.holes():
                yield publisher, one.name, topic, epoch, first, last, last - first + 1

    def missing(self) -> int:
        """How many sequence numbers are absent."""
        if self.absent is None:
            self.absent = sum(one.seen.missing for one in self.series.values())
        return self.absent

    def epochs(self) -> dict[tuple[str, int | None], tuple[str | None, int]]:
        """Name and first receipt of every publisher and epoch."""
        found: dict[tuple[str, int | None], tuple[str | None, int]] = {}
        for (publisher, epoch, _), one in self.series.items():
            known = found.get((publisher, epoch))
            if known is None or one.since < known[1]:
                found[publisher, epoch] = one.name, one.since
        return found


_packed = msgspec.msgpack.Encoder().encode
_unpacked = msgspec.msgpack.Decoder(Topic).decode


def _add(own: Topic, cell: Cell) -> None:
    """Count what a cell tells as well."""
    own.count += cell.count
    own.timed += cell.timed
    own.first_sent = min(_told(own.first_sent, cell.first_sent), default=None)
    own.last_sent = max(_told(own.last_sent, cell.last_sent), default=None)
    own.ages.add(cell.ages)
    own.values.add(cell.values)


def _told(*times: int | None) -> list[int]:
    return [each for each in times if each is not None]


def _repeated(
    known: Mapping[KeyT, IntervalSet], told: Iterable[tuple[int, Mapping[KeyT, IntervalSet]]]
) -> dict[int, dict[KeyT, list[int]]]:
    """What tasks tell of that is known, or told of by a task before them: ranges by task and key."""
    fresh: dict[KeyT, IntervalSet] = {}
    found: dict[int, dict[KeyT, list[int]]] = {}
    for task, by_key in told:
        for key, runs in by_key.items():
            new, both = fresh.setdefault(key, IntervalSet()), IntervalSet()
            both.update(new.common(runs))
            both.update(known[key].common(runs) if key in known else ())
            new.update(runs)
            if len(both):
                found.setdefault(task, {})[key] = both.flat()
    return found


def _runs_by_key(report: Report) -> dict[Key, IntervalSet]:
    found: dict[Key, IntervalSet] = {}
    for part in report.parts:
        if part.runs:
            runs = found.setdefault((part.publisher, part.epoch, part.topic), IntervalSet())
            runs.update(IntervalSet(part.runs))
    return found
