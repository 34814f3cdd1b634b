"""What compaction does to a journal in the long run, played without a file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.pipeline.recording.compaction import TARGET_BYTES, TARGET_ROWS, Piece, next_run

AGE, EVERY, PAUSE = 300.0, 5.0, 30.0
DAY = 86_400.0
PATH = Path("segment")


def merged(run: list[Piece]) -> Piece:
    rows = sum(piece.rows or 0 for piece in run)
    return Piece(PATH, run[0].first, rows, sum(piece.size for piece in run), run[-1].written)


def checked(run: list[Piece]) -> list[Piece]:
    assert len(run) > 1
    assert all(one.end == other.first for one, other in pairwise(run))
    assert len({piece.day for piece in run}) == 1
    whole = merged(run)
    assert whole.size <= TARGET_BYTES
    assert (whole.rows or 0) <= TARGET_ROWS
    return run


class Played:
    """A journal to which a segment of so many rows comes every 5 s."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size
        self.pieces: list[Piece] = []
        self.rewritten = self.merges = 0
        self.now = 0.0

    def play(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += EVERY
            first = self.pieces[-1].end if self.pieces else 0
            self.pieces.append(Piece(PATH, first, self.rows, self.size, self.now))
            if self.now % PAUSE == 0:
                self.look()

    def look(self) -> None:
        while True:
            old = sum(piece.written <= self.now - AGE for piece in self.pieces[-200:])
            old += max(0, len(self.pieces) - 200)
            run = checked_or_none(next_run(self.pieces[:old], self.now))
            if not run:
                return
            place = self.pieces.index(run[0])
            self.pieces[place : place + len(run)] = [merged(run)]
            self.rewritten += sum(piece.rows or 0 for piece in run)
            self.merges += 1

    def by_day(self) -> Iterator[int]:
        for day in range(int(self.now // DAY)):
            yield sum(piece.day == day for piece in self.pieces)


def checked_or_none(run: object) -> list[Piece]:
    pieces: list[Piece] = list(run)  # pyright: ignore[reportArgumentType]
    return checked(pieces) if pieces else []


@pytest.mark.parametrize(
    ("rows", "size", "most"), [(10, 9_000, 3), (5_000, 150_000, 30), (20_000, 600_000, 100)]
)
def test_a_day_of_segments_of_five_seconds_ends_as_few_files(rows: int, size: int, most: int) -> None:
    journal = Played(rows, size)
    journal.play(2 * DAY + 3600)
    first, second = journal.by_day()
    assert max(first, second) <= most
    assert sum(piece.day == 2 for piece in journal.pieces) <= 100


def test_a_row_is_written_again_a_handful_of_times() -> None:
    journal = Played(500, 20_000)
    journal.play(DAY)
    assert journal.rewritten < 6 * 500 * DAY / EVERY
    assert journal.merges < DAY / EVERY / 7


def test_no_day_is_touched_again_when_it_is_done() -> None:
    journal = Played(500, 20_000)
    journal.play(DAY + 3600)
    before = [piece for piece in journal.pieces if piece.day == 0]
    journal.play(3600)
    assert [piece for piece in journal.pieces if piece.day == 0] == before


sizes = st.tuples(
    st.one_of(st.none(), st.integers(1, TARGET_ROWS)), st.integers(1, TARGET_BYTES), st.integers(0, 3)
)


@given(st.lists(sizes, max_size=60), st.integers(0, 3))
def test_whatever_segments_look_like_merging_ends_and_keeps_their_order(
    shapes: list[tuple[int | None, int, int]], today: int
) -> None:
    pieces: list[Piece] = []
    offset, written = 0, 0.0
    for rows, size, pause in shapes:
        written += pause * DAY / 5
        pieces.append(Piece(PATH, offset, rows, size, written))
        offset += rows or 1
    for _ in range(len(pieces) + 1):
        run = checked_or_none(next_run(pieces, today * DAY))
        if not run:
            break
        assert all(piece.is_small for piece in run)
        place = pieces.index(run[0])
        pieces[place : place + len(run)] = [merged(run)]
    assert not next_run(pieces, today * DAY)
