"""Which segments of a journal hold rows that no batch has handled.

::

    all its offsets are handled                   passed over; the footer is read only when the name and the
                                                  next one's do not tell its last offset
    its footer is good                            given, those that were received first go first
    its footer is bad, and it is young            looked at again: somebody may be copying it
    its footer is bad, and it is older            damaged
    named as damaged before, and not changed      passed over
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from ..arrow import pq
from ..recording.reading import SegmentDamaged, SegmentGone, opened
from ..schema import segment_recorder, segment_span, segments
from .files import NEVER, extent
from .interval_set import IntervalSet
from .summary import Damage

SETTLE = 5.0
"""Seconds for which a file that has no end yet may be one that somebody is copying."""


class Segment(NamedTuple):
    """A segment that can be read; times in µs since 1970.

    Attributes:
        path: of its file.
        rows: as its footer tells.
        oldest: first receipt.
        newest: last receipt.
    """

    path: str
    rows: int
    oldest: int
    newest: int


class Found(NamedTuple):
    """What one look has found.

    Attributes:
        segments: to be read, in order.
        damaged: segments that cannot be.
        unsettled: a segment is bad and young: look again.
    """

    segments: list[Segment]
    damaged: list[Damage]
    unsettled: bool


class Unread:
    """Looks at a journal, again and again; gives each segment once.

    Args:
        journal: its directory.
        settle: seconds; see `SETTLE`.
    """

    def __init__(self, journal: Path, settle: float = SETTLE) -> None:
        self.journal, self._settle = journal, settle
        self._passed: set[str] = set()
        self._waiting: dict[str, Segment] = {}

    def look(
        self,
        done: Mapping[str, IntervalSet],
        damaged: Collection[str],
        most: int,
        now: float,
        rows: int | None = None,
    ) -> Found:
        """Segments with rows that were not handled, the earliest first.

        Args:
            done: offsets that were handled, by recorder.
            damaged: names of segments that are known to be.
            most: segments to give at most.
            now: Unix seconds.
            rows: after which no further segment is given; None for no bound.

        Raises:
            JournalError: when the journal cannot be listed, or a segment is of a newer form.
        """
        listed = [path for _, path in segments(self.journal)]
        names = {path.name for path in listed}
        self._passed &= names
        self._waiting = {name: each for name, each in self._waiting.items() if name in names}
        bad: list[Damage] = []
        unsettled = False
        for path, following in zip_longest(listed, listed[1:]):
            if path.name in self._passed or path.name in self._waiting or path.name in damaged:
                continue
            try:
                self._judge(path, following, done)
            except SegmentGone:
                continue
            except SegmentDamaged as exc:
                if _age(path, now) < self._settle:
                    unsettled = True
                else:
                    bad.append(Damage(path.name, exc.rows, 0, exc.reason))
        given: list[Segment] = []
        room = sys.maxsize if rows is None else rows
        for each in sorted(self._waiting.values(), key=lambda each: (each.oldest, each.path))[:most]:
            if room <= 0:
                break
            given.append(each)
            room -= each.rows
            self._passed.add(Path(each.path).name)
            del self._waiting[Path(each.path).name]
        return Found(given, bad, unsettled)

    def _judge(self, path: Path, following: Path | None, done: Mapping[str, IntervalSet]) -> None:
        """Pass a segment over, or let it wait."""
        recorder, first, last = segment_span(path)
        handled = done.get(recorder, IntervalSet())
        if last is None and following is not None and segment_recorder(following) == recorder:
            last = segment_span(following)[1] - 1
        if last is not None and handled.covers(first, last):
            self._passed.add(path.name)
            return
        with opened(path) as file:
            footer = file.metadata
        offsets = extent(footer, "offset")
        if footer.num_rows and (offsets is None or not handled.covers(*offsets)):
            self._waiting[path.name] = describe(path, footer)
        else:
            self._passed.add(path.name)


def describe(path: Path, footer: pq.FileMetaData) -> Segment:
    """A segment as its footer tells of it; without figures, it may hold rows of any time."""
    oldest, newest = extent(footer, "received_at") or (0, NEVER)
    return Segment(str(path), footer.num_rows, oldest, newest)


def _age(path: Path, now: float) -> float:
    """How far a file's time is from now; one that is to come is of another clock."""
    try:
        return abs(now - path.stat().st_mtime)
    except OSError:
        return 0.0
