"""Which segments of a journal hold rows that no batch has handled.

::

    its offsets are of another journal            those of that journal are handled that were, mostly none
    they are of another one than the newest's     looked at again: it has its turn when that one was given
    all its offsets are handled                   passed over; the footer is read only when the name and the
                                                  next one's do not tell its last offset
    its footer is good                            given, those that were received first go first
    its footer is bad, and it is young            looked at again: somebody may be copying it
    its footer is bad, and it is older            damaged
    named as damaged before, and not changed      passed over
    some are waiting to be given                  given, before the journal is listed again
    passed over or given before                   no more than its name is looked at
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from ..arrow import pq
from ..recording.numbers import journal_of, origin_of
from ..recording.reading import SegmentDamaged, SegmentGone, opened
from ..schema import entries_of, segment_recorder, segment_span, told_by
from .files import NEVER, extent
from .interval_set import IntervalSet
from .origins import handled_by, others
from .state import State
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
        unsettled: a segment is bad and young, or of another journal: look again.
        handled: offsets that were handled, by recorder.
        origins: of offsets, by recorder, where they are not those that are known (see `recording.numbers`).
    """

    segments: list[Segment]
    damaged: list[Damage]
    unsettled: bool
    handled: Mapping[str, IntervalSet]
    origins: dict[str, str]


class Unread:
    """Looks at a journal, again and again; gives each segment once.

    Args:
        journal: its directory.
        settle: seconds; see `SETTLE`.
    """

    def __init__(self, journal: Path, settle: float = SETTLE) -> None:
        self.journal, self._settle = journal, settle
        self._passed: set[str] = set()
        self._waiting = deque[Segment]()
        self._judged_again: dict[str, int] = {}

    def look(self, state: State, most: int, now: float) -> Found:
        """Segments with rows that were not handled, the earliest first.

        Args:
            state: of the tables; a segment that is damaged, and has changed since that was found, is judged
                again.
            most: segments to give at most.
            now: Unix seconds.

        Raises:
            JournalError: when the journal cannot be listed, or a segment is of a newer form.
        """
        bad: list[Damage] = []
        unsettled, new = False, dict[str, str]()
        done: Mapping[str, IntervalSet] = state.offsets
        if not self._waiting:
            unsettled, done, new = self._list(state, now, bad)
        given: list[Segment] = []
        while self._waiting and len(given) < most:
            each = self._waiting.popleft()
            given.append(each)
            self._passed.add(Path(each.path).name)
        return Found(given, bad, unsettled, done, new)

    def _list(
        self, state: State, now: float, bad: list[Damage]
    ) -> tuple[bool, Mapping[str, IntervalSet], dict[str, str]]:
        """Let segments wait that are not known yet; whether one is unsettled, and `Found`'s last two."""
        known, changed = self._told(state.damaged)
        listed, waiting = self._fresh(), list[Segment]()
        unsettled = False
        told = origins_of(listed)
        new = others(state.origins, told)
        done = handled_by(state.offsets, state.origins, new)
        for path, following in zip_longest(listed, listed[1:]):
            if path.name in known:
                continue
            try:
                if (segment := self._judged(path, following, done, told)) is not None:
                    waiting.append(segment)
            except SegmentGone:
                continue
            except _OtherJournal:
                unsettled = True
                continue
            except SegmentDamaged as exc:
                if _age(path, now) < self._settle:
                    unsettled = True
                    continue
                bad.append(Damage(path.name, exc.rows, 0, exc.reason))
            if path.name in changed:
                self._judged_again[path.name] = changed[path.name]
        self._waiting.extend(sorted(waiting, key=lambda each: (each.oldest, each.path)))
        return unsettled, done, new

    def _fresh(self) -> list[Path]:
        """Segments that were neither given nor passed over, in order; there may be very many others."""
        names, fresh = set[str](), list[os.DirEntry[str]]()
        for entry in entries_of(self.journal):
            names.add(entry.name)
            if entry.name not in self._passed:
                fresh.append(entry)
        self._passed &= names
        return [path for _, path, covered in told_by(fresh) if not covered]

    def _told(self, damaged: Iterable[Damage]) -> tuple[set[str], dict[str, int]]:
        """Of damaged segments those that are as they were found, and the times of those that may not be."""
        known, changed = set[str](), dict[str, int]()
        for each in damaged:
            time = _changed(self.journal / each.file)
            # A time that is to come, of another clock, is behind whatever was found; it counts once.
            if time <= each.found or time == self._judged_again.get(each.file):
                known.add(each.file)
            else:
                changed[each.file] = time
                self._passed.discard(each.file)
        return known, changed

    def _judged(
        self,
        path: Path,
        following: Path | None,
        done: Mapping[str, IntervalSet],
        origins: Mapping[str, str],
    ) -> Segment | None:
        """A segment that is to wait; None for one that is passed over."""
        recorder, first, last = segment_span(path)
        handled = done.get(recorder, IntervalSet())
        if last is None and following is not None and segment_recorder(following) == recorder:
            last = segment_span(following)[1] - 1
        if last is not None and handled.covers(first, last):
            self._passed.add(path.name)
            return None
        with opened(path) as file:
            footer = file.metadata
        if journal_of(origin_of(footer.metadata)) != journal_of(origins.get(recorder, "")):
            raise _OtherJournal
        offsets = extent(footer, "offset")
        if footer.num_rows and (offsets is None or not handled.covers(*offsets)):
            return describe(path, footer)
        self._passed.add(path.name)
        return None


class _OtherJournal(Exception):
    """Offsets of this segment are not of the journal that its recorder's newest segment is of."""


def origins_of(listed: Sequence[Path]) -> dict[str, str]:
    """Which count of offsets each recorder's newest segment, by the order, goes on with."""
    found = dict[str, str]()
    for path in reversed(listed):
        if (recorder := segment_recorder(path)) not in found:
            with suppress(SegmentDamaged, SegmentGone), opened(path) as file:
                found[recorder] = origin_of(file.metadata.metadata)
    return found


def describe(path: Path, footer: pq.FileMetaData) -> Segment:
    """A segment as its footer tells of it; without figures, it may hold rows of any time."""
    oldest, newest = extent(footer, "received_at") or (0, NEVER)
    return Segment(str(path), footer.num_rows, oldest, newest)


def _changed(path: Path) -> int:
    """When a file was changed, µs since 1970; 0 for one that is gone."""
    try:
        return path.stat().st_ctime_ns // 1000
    except OSError:
        return 0


def _age(path: Path, now: float) -> float:
    """How far a file's time is from now; one that is to come is of another clock."""
    try:
        return abs(now - path.stat().st_mtime)
    except OSError:
        return 0.0
