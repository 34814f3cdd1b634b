"""The state of the tables: what they hold of each publisher, as it follows from the reports of all batches.

By publisher, epoch and topic the sequence numbers that were seen, as ranges; by publisher and topic the
figures; the windows that are still open; and by recorder the offsets that were handled. It grows with
publishers, topics and gaps, not with rows. Only the driver has it.

It is the fold of the commit log: `State.apply` of one `Commit` after the other behind the content of a
checkpoint gives the same state, whenever it is done. No clock, no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...protocol.errors import JournalError
from .commit_log import Commit
from .interval_set import IntervalSet, Span
from .known_ids import KnownIds, each_of
from .quantile_sketch import Figures
from .summary import Cell, Copies, Damage, Part, Report

Key = tuple[str, "int | None", str]


class Series(msgspec.Struct, array_like=True):
    """One publisher, epoch and topic: what was seen of it.

    Attributes:
        name: of the publisher.
        runs: sequence numbers as ranges.
        since: first receipt, µs since 1970.
    """

    name: str | None
    runs: list[int]
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


class Window(msgspec.Struct, array_like=True):
    """One publisher, topic and window that may still grow."""

    name: str | None
    cell: Cell
    newest: int


class Content(msgspec.Struct):
    """A state as a checkpoint of the commit log has it; see `State`."""

    offsets: dict[str, list[int]] = {}
    series: list[tuple[str, int | None, str, Series]] = []
    topics: list[tuple[str, str, Topic]] = []
    windows: list[tuple[str, str, int, Window]] = []
    heard: dict[str, int] = {}
    closed: dict[str, int] = {}
    damaged: list[Damage] = []
    width: int = 0
    too_late: int = 0
    upto: list[tuple[str, int | None, str, int]] = []
    ids: bytes = b""
    journal: str = ""


class State:
    """See the module's docstring.

    Attributes:
        offsets: handled, by recorder.
        series: by publisher, epoch and topic.
        topics: by publisher and topic.
        windows: open ones, by publisher, topic and number.
        heard: the newest time of sending of each publisher, µs since 1970.
        closed: number of the last window of each publisher that is over.
        damaged: segments that could not be read as a whole.
        width: of the windows, µs.
        too_late: notifications whose window was over when they came.
        upto: the greatest number that is known to have been published, by publisher, epoch and topic, as
            version 0.1 noted it of mailboxes.
        ids: of notifications without a number.
        journal: that the rows are from; empty when it was none that stays.
    """

    def __init__(self, width: int = 0) -> None:
        self.width = width
        self.offsets: dict[str, IntervalSet] = {}
        self.series: dict[Key, Series] = {}
        self.seen: dict[Key, IntervalSet] = {}
        self.topics: dict[tuple[str, str], Topic] = {}
        self.windows: dict[tuple[str, str, int], Window] = {}
        self.heard: dict[str, int] = {}
        self.closed: dict[str, int] = {}
        self.damaged: list[Damage] = []
        self.too_late = 0
        self.upto: dict[Key, int] = {}
        self.ids = KnownIds()
        self.journal = ""

    @classmethod
    def decode(cls, content: bytes) -> State:
        """The state that `encode` gave; `msgspec.MsgspecError` for other bytes."""
        found = msgspec.msgpack.decode(content, type=Content)
        made = cls(found.width)
        made.heard, made.closed, made.damaged = found.heard, found.closed, found.damaged
        made.offsets = {recorder: IntervalSet(runs) for recorder, runs in found.offsets.items()}
        made.series = {(publisher, epoch, topic): one for publisher, epoch, topic, one in found.series}
        made.seen = {key: IntervalSet(one.runs) for key, one in made.series.items()}
        made.topics = {(publisher, topic): one for publisher, topic, one in found.topics}
        made.windows = {(publisher, topic, place): one for publisher, topic, place, one in found.windows}
        made.too_late = found.too_late
        made.upto = {(publisher, epoch, topic): upto for publisher, epoch, topic, upto in found.upto}
        made.ids, made.journal = KnownIds(found.ids), found.journal
        return made

    def encode(self) -> bytes:
        """The state for a checkpoint."""
        for key, one in self.series.items():
            one.runs = self.seen[key].flat()
        content = Content(
            offsets={recorder: runs.flat() for recorder, runs in self.offsets.items()},
            series=[(*key, one) for key, one in self.series.items()],
            topics=[(*key, one) for key, one in self.topics.items()],
            windows=[(*key, one) for key, one in self.windows.items()],
            heard=self.heard,
            closed=self.closed,
            damaged=self.damaged,
            width=self.width,
            too_late=self.too_late,
            upto=[(*key, upto) for key, upto in self.upto.items()],
            ids=self.ids.joined(),
            journal=self.journal,
        )
        return msgspec.msgpack.encode(content)

    def check_width(self, root: Path, width: int) -> None:
        """Refuse windows of another width while some are open.

        Args:
            root: of the tables, for the error.
            width: in µs.

        Raises:
            JournalError: says what to do.
        """
        if self.windows and self.width != width:
            own, other = f"{self.width / 1e6:g}", f"{width / 1e6:g}"
            raise JournalError(
                f"{root} has {len(self.windows)} open windows of {own} s, which windows of {other} s would "
                f"discard: give --window {own}, or make other tables"
            )

    def apply(self, commit: Commit) -> list[tuple[tuple[str, str, int], Window]]:
        """Count what a commit tells of; the windows that are over now."""
        if commit.width not in (None, self.width):
            self.width, self.closed = commit.width or 0, {}
        self.journal = self.journal if commit.journal is None else commit.journal
        for copies in commit.copies:
            topic = self.topics.setdefault((copies.publisher, copies.topic), Topic())
            topic.duplicates += IntervalSet(copies.runs).count
        for report in commit.reports:
            self.absorb(report)
            for publisher, name, count in report.copies:
                self.topics.setdefault((publisher, name), Topic()).duplicates += count
        self.damaged += commit.damaged
        newest = max((report.newest for report in commit.reports), default=0)
        return list(self.close_windows(newest, commit.lateness)) if self.width and newest else []

    def repeated(self, reports: Iterable[Report]) -> dict[int, list[Copies]]:
        """What tasks filed that was in the tables, or filed by a task before them; nothing changes.

        Args:
            reports: in order of the tasks.

        Returns:
            By task, what has to be left out.
        """
        fresh: dict[Key, IntervalSet] = {}
        drops: dict[int, list[Copies]] = {}
        for report in reports:
            for key, runs in _runs_by_key(report).items():
                seen, new = self.seen.get(key), fresh.setdefault(key, IntervalSet())
                both = IntervalSet()
                for first, last in runs:
                    for low, high in [
                        *new.overlap(first, last),
                        *(seen.overlap(first, last) if seen else ()),
                    ]:
                        both.add(low, high)
                for first, last in runs:
                    new.add(first, last)
                if len(both):
                    drops.setdefault(report.task, []).append(Copies(*key, both.flat()))
        return drops

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
        known: dict[str, IntervalSet] = {}
        found: dict[int, dict[str, list[int]]] = {}
        for report in reports:
            for recorder, runs in report.offsets.items():
                before, both = known.setdefault(recorder, IntervalSet()), IntervalSet()
                for first, last in IntervalSet(runs):
                    for low, high in before.overlap(first, last):
                        both.add(low, high)
                for first, last in IntervalSet(runs):
                    before.add(first, last)
                if len(both):
                    found.setdefault(report.task, {})[recorder] = both.flat()
        return found

    def absorb(self, report: Report) -> None:
        """Count what a task filed; the numbers must not overlap with anything that was seen."""
        self.handle(report.offsets)
        self.ids.add(report.ids)
        for part in report.parts:
            self._absorb(part)

    def handle(self, offsets: Mapping[str, list[int]]) -> None:
        """Note offsets by recorder, given as ranges, as handled."""
        for recorder, runs in offsets.items():
            known = self.offsets.setdefault(recorder, IntervalSet())
            for first, last in IntervalSet(runs):
                known.add(first, last)

    def _absorb(self, part: Part) -> None:
        topic = self.topics.setdefault((part.publisher, part.topic), Topic())
        topic.name = max(filter(None, (topic.name, part.name)), default=None)
        topic.late += self._note(part)
        for cell in part.cells:
            topic.count += cell.count
            topic.timed += cell.timed
            topic.first_sent = _least(topic.first_sent, cell.first_sent)
            topic.last_sent = _greatest(topic.last_sent, cell.last_sent)
            topic.ages.add(cell.ages)
            topic.values.add(cell.values)
            if cell.last_sent is not None:
                self.heard[part.publisher] = max(cell.last_sent, self.heard.get(part.publisher, 0))
            if self.width:
                self._grow(part, cell)

    def _note(self, part: Part) -> int:
        """The numbers are seen now; how many of them are less than one that was seen before."""
        key = (part.publisher, part.epoch, part.topic)
        one = self.series.get(key)
        if one is None:
            one = self.series[key] = Series(part.name, [], part.oldest)
            self.seen[key] = IntervalSet()
        seen, late = self.seen[key], 0
        greatest = seen.last
        for first, last in IntervalSet(part.runs):
            if greatest is not None and first < greatest:
                late += min(last, greatest) - first + 1
            seen.add(first, last)
        one.name, one.since = part.name or one.name, min(one.since, part.oldest)
        return late

    def _grow(self, part: Part, cell: Cell) -> None:
        key = (part.publisher, part.topic, cell.window)
        window = self.windows.get(key)
        if window is None:
            if cell.window <= self.closed.get(part.publisher, -1):
                self.too_late += cell.count
            else:
                self.windows[key] = Window(part.name, _copy(cell), part.newest)
            return
        own = window.cell
        own.count += cell.count
        own.timed += cell.timed
        own.first_sent = _least(own.first_sent, cell.first_sent)
        own.last_sent = _greatest(own.last_sent, cell.last_sent)
        own.ages.add(cell.ages)
        own.values.add(cell.values)
        window.newest = max(window.newest, part.newest)

    def close_windows(self, newest: int, lateness: int) -> Iterator[tuple[tuple[str, str, int], Window]]:
        """Take out the windows that are over: nothing more is expected of them.

        A window is over when its publisher has sent something ``lateness`` after its end, or when something
        was received ``lateness`` and a window's width after its own last row. So a clock that is wrong
        closes the windows of its own publisher only.

        Args:
            newest: receipt of anything, µs since 1970.
            lateness: µs.
        """
        for key in list(self.windows):
            publisher, _, place = key
            window = self.windows[key]
            end = (place + 1) * self.width
            silent = newest >= window.newest + self.width + lateness
            if silent or self.heard.get(publisher, 0) >= end + lateness:
                self.closed[publisher] = max(place, self.closed.get(publisher, -1))
                yield key, self.windows.pop(key)

    def holes(self, key: Key) -> Iterator[Span]:
        """The ranges that are absent behind the first number that was seen."""
        seen = self.seen[key]
        yield from seen.holes()
        last, upto = seen.last, self.upto.get(key, 0)
        if last is not None and last < upto:
            yield last + 1, upto

    def gaps(self) -> Iterator[dict[str, Any]]:
        """Rows of `schema.GAPS`."""
        for (publisher, epoch, topic), one in self.series.items():
            for first, last in self.holes((publisher, epoch, topic)):
                yield {
                    "publisher": publisher, "name": one.name, "topic": topic, "epoch": epoch,
                    "first_missing": first, "last_missing": last, "count": last - first + 1,
                }  # fmt: skip

    def missing(self) -> int:
        """How many sequence numbers are absent."""
        return sum(last - first + 1 for key in self.seen for first, last in self.holes(key))

    def epochs(self) -> dict[tuple[str, int | None], tuple[str | None, int]]:
        """Name and first receipt of every publisher and epoch."""
        found: dict[tuple[str, int | None], tuple[str | None, int]] = {}
        for (publisher, epoch, _), one in self.series.items():
            known = found.get((publisher, epoch))
            if known is None or one.since < known[1]:
                found[publisher, epoch] = one.name, one.since
        return found


def _copy(cell: Cell) -> Cell:
    """A cell that can grow, while the report that it came with stays as it is."""
    ages, values = msgspec.structs.replace(cell.ages), msgspec.structs.replace(cell.values)
    return msgspec.structs.replace(cell, ages=ages, values=values)


def _runs_by_key(report: Report) -> dict[Key, IntervalSet]:
    found: dict[Key, IntervalSet] = {}
    for part in report.parts:
        if part.runs:
            runs = found.setdefault((part.publisher, part.epoch, part.topic), IntervalSet())
            for first, last in IntervalSet(part.runs):
                runs.add(first, last)
    return found


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _greatest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
