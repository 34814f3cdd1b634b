"""Compaction: which neighbours of a journal become one segment next. Pure: no file is read.

::

    neighbours of one day                            are merged
    followed by what can never join them             at once
    that fill a segment of `TARGET_BYTES`            at once
    the newest ones, to which more will come         when there are `FAN` of them, and the oldest of them has
                                                     at most a `GROWTH`-th of the rows of the others

So a row is written again only when its segment becomes `GROWTH` + 1 times as long: a handful of times,
however long the journal is, and a day ends as the few segments that its bytes need. No segment spans two
days, so that retention by age goes by days.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

TARGET_BYTES = 128 << 20
TARGET_ROWS = 10_000_000
"""A compacted segment has no more than this; a segment of half of it is left alone."""

FAN = 8
GROWTH = 4

DAY = 86_400.0


class Piece(NamedTuple):
    """One segment.

    Attributes:
        path: of its file.
        first: its first offset.
        rows: how many; None for one that cannot be read.
        size: of the file in bytes.
        written: when its newest row was written, Unix seconds.
    """

    path: Path
    first: int
    rows: int | None
    size: int
    written: float

    @property
    def day(self) -> int:
        """Days since 1970."""
        return int(self.written // DAY)

    @property
    def end(self) -> int:
        """The offset behind its last one."""
        return self.first + (self.rows or 0)

    @property
    def is_small(self) -> bool:
        """Whether it may become part of another one."""
        return self.rows is not None and self.rows * 2 < TARGET_ROWS and self.size * 2 < TARGET_BYTES


def next_run(pieces: Sequence[Piece], now: float, fan: int = FAN) -> Sequence[Piece]:
    """The neighbours that become one segment next; empty when nothing is to be done.

    Args:
        pieces: of one recorder, by offset; those that are too young to be touched are left out.
        now: Unix seconds.
        fan: how many of the newest ones there are at least.
    """
    for run, goes_on in _runs(pieces):
        chosen = _grown(run, fan) if goes_on and run[-1].day == int(now // DAY) else run
        if len(chosen) > 1:
            return chosen
    return []


def first_kept(days: Iterable[int], keep: int) -> float:
    """The day before which all may go by its age: ``keep`` others hold something.

    By a clock that is far ahead everything is too old at once.

    Args:
        days: that hold something, in any order.
        keep: how many of the last ones stay.
    """
    ordered = sorted({*days})
    return min(ordered[max(0, len(ordered) - keep) :], default=math.inf)


def _runs(pieces: Sequence[Piece]) -> Iterator[tuple[Sequence[Piece], bool]]:
    """Neighbours that fit into one segment, and whether more may come to them."""
    run, size, rows = list[Piece](), 0, 0
    for piece in pieces:
        joins = bool(run) and piece.is_small and (piece.first, piece.day) == (run[-1].end, run[-1].day)
        fits = size + piece.size <= TARGET_BYTES and rows + (piece.rows or 0) <= TARGET_ROWS
        if run and not (joins and fits):
            yield run, False
            run, size, rows = [], 0, 0
        if piece.is_small:
            run.append(piece)
            size, rows = size + piece.size, rows + (piece.rows or 0)
    if run:
        yield run, True


def _grown(run: Sequence[Piece], fan: int) -> Sequence[Piece]:
    behind = sum(piece.rows or 0 for piece in run)
    for number, piece in enumerate(run):
        behind -= piece.rows or 0
        if (piece.rows or 0) * GROWTH <= behind:
            return run[number:] if len(run) - number >= fan else []
    return []
