"""Buffer: notifications that came out of the mailboxes and are not acknowledged yet.

::

    notification      event                                             next
    -                 put, its number is above the line's last one      held
    -                 put, its number is at most the line's floor       - (DONE: Spark has it, acknowledge)
    held              put again, by another subscription                held (REPEATED), and released with it
    held              read, any number of times                         held
    held              release: Spark has committed its number           released: acknowledge
    released          read                                              RowsMissing

    a line's number   n above last + 1                                  a gap of n - last - 1, counted
    a line            its publisher was restarted, all of it released   forgotten, with the next offset

A line's *floor* is the highest number that Spark has committed. The first offset of a restarted query raises
it before anything else, so what was committed and not acknowledged is dropped here.
"""

from __future__ import annotations

import enum
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from ...protocol.errors import RowsMissing
from .offsets import Line, Offset, Span

R = TypeVar("R")

MAX_GAPS = 1000
"""Gaps that are remembered one by one; all are counted."""


class Taken(enum.Enum):
    """What became of a notification that came."""

    HELD = enum.auto()
    DONE = enum.auto()
    REPEATED = enum.auto()


class Missing(NamedTuple):
    """Numbers of a line that never came."""

    line: Line
    first: int
    last: int

    @property
    def total(self) -> int:
        """How many."""
        return self.last - self.first + 1


class _Held(Generic[R]):
    """The rows of one line, in order of their numbers."""

    __slots__ = ("arrivals", "floor", "last", "numbers", "repeats", "rows", "sizes")

    def __init__(self) -> None:
        self.floor = self.last = 0
        self.numbers, self.arrivals, self.sizes = array("q"), array("q"), array("q")
        self.rows: list[R] = []
        self.repeats: list[tuple[int, R]] = []

    def drop(self, count: int) -> list[R]:
        gone = self.rows[:count]
        del self.rows[:count], self.numbers[:count], self.arrivals[:count], self.sizes[:count]
        if self.repeats:
            gone += [row for number, row in self.repeats if number <= self.floor]
            self.repeats = [each for each in self.repeats if each[0] > self.floor]
        return gone


class Buffer(Generic[R]):
    """See the table in the module's docstring. Its length counts what is held. Not thread-safe.

    Attributes:
        bytes: size of what is held.
        gaps: the last `MAX_GAPS` of them, oldest first.
        lost: notifications in all gaps.
        arrived: how many came, in all; numbers them in the order of their arrival.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.lost = 0
        self.arrived = 0
        self.gaps: deque[Missing] = deque(maxlen=MAX_GAPS)
        self._lines: dict[Line, _Held[R]] = {}
        self._count = 0
        self._ended: set[tuple[str, int]] = set()

    def __len__(self) -> int:
        return self._count

    def held_of(self, publisher: str) -> int:
        """How many of a publisher are held."""
        return sum(len(held.rows) for line, held in self._lines.items() if line.publisher == publisher)

    def put(self, line: Line, number: int, size: int, row: R) -> Taken:
        """A notification came."""
        held = self._lines.get(line)
        if held is None:
            held = self._lines[line] = _Held()
        if number <= held.last:
            if number <= held.floor:
                return Taken.DONE
            held.repeats.append((number, row))
            return Taken.REPEATED
        if held.last and number > held.last + 1:
            self._miss(Missing(line, held.last + 1, number - 1))
        held.last = number
        held.numbers.append(number)
        held.arrivals.append(self.arrived)
        held.sizes.append(size)
        held.rows.append(row)
        self.arrived += 1
        self.bytes += size
        self._count += 1
        return Taken.HELD

    def _miss(self, gap: Missing) -> None:
        self.gaps.append(gap)
        self.lost += gap.total

    def end(self, publisher: str, epoch: int) -> None:
        """A publisher was restarted: nothing more comes of this epoch."""
        self._ended.add((publisher, epoch))

    def release(self, upto: Offset) -> list[R]:
        """Spark has committed everything up to an offset; returns what is to be acknowledged."""
        released: list[R] = []
        for line, number in upto.at.items():
            held = self._lines.get(line)
            if held is None:
                held = self._lines[line] = _Held()
            if number <= held.floor:
                continue
            count = bisect_right(held.numbers, number)
            if held.numbers and held.floor == 0 and held.numbers[0] > number + 1 and not count:
                self._miss(Missing(line, number + 1, held.numbers[0] - 1))
            self.bytes -= sum(held.sizes[:count])
            self._count -= count
            held.floor = number
            held.last = max(held.last, number)
            released += held.drop(count)
        return released

    def last(self, mailbox: str) -> Offset:
        """The last number of every line."""
        return Offset(mailbox, {line: held.last for line, held in self._lines.items()})

    def latest(self, start: Offset, limit: int | None = None, before: int | None = None) -> Offset:
        """How far a batch may go.

        Args:
            start: where it begins.
            limit: most notifications; None for all. Those that came first go first.
            before: only what came before this many had arrived; None for all.

        Returns:
            ``start`` itself when there is nothing to read.
        """
        fresh = {
            line: (held, first)
            for line, held in self._lines.items()
            if (first := bisect_right(held.numbers, start.of(line))) < len(held.rows)
        }
        bound = self.arrived if before is None else before
        if limit is not None:
            bound = min(bound, _arrival_after(list(fresh.values()), limit, bound))
        at = dict(start.at)
        for line, (held, first) in fresh.items():
            count = bisect_right(held.arrivals, bound - 1)
            if count > first:
                at[line] = held.numbers[count - 1]
        if at == dict(start.at):
            return start
        return Offset(start.mailbox, self._without_ended(at, start))

    def _without_ended(self, at: Mapping[Line, int], start: Offset) -> dict[Line, int]:
        """Lines of which nothing more can come are in no offset for ever."""
        return {
            line: number
            for line, number in at.items()
            if line[:2] not in self._ended or number > start.of(line) or self._holds_beyond(line, number)
        }

    def _holds_beyond(self, line: Line, number: int) -> bool:
        held = self._lines.get(line)
        return held is not None and held.last > number

    def lacking(self, spans: Iterable[Span]) -> list[Span]:
        """Those of which the last notification, or what follows it, has not come."""
        lacking: list[Span] = []
        for span in spans:
            held = self._lines.get(span.line)
            if held is None or held.last < span.upto:
                lacking.append(span)
        return lacking

    def give_up(self, span: Span) -> None:
        """What is lacking of a span will never come: count it."""
        held = self._lines.setdefault(span.line, _Held())
        first = max(held.last, span.after) + 1
        if first <= span.upto:
            self._miss(Missing(span.line, first, span.upto))
            held.last = span.upto

    def size(self, span: Span) -> int:
        """How many rows a span has here."""
        held = self._lines.get(span.line)
        if held is None:
            return 0
        return bisect_right(held.numbers, span.upto) - bisect_right(held.numbers, span.after)

    def cut(self, span: Span, count: int) -> tuple[Span, Span | None]:
        """The first ``count`` rows of a span, and the rest of it."""
        held = self._lines[span.line]
        stop = bisect_right(held.numbers, span.after) + count
        if stop >= bisect_right(held.numbers, span.upto):
            return span, None
        middle = held.numbers[stop - 1]
        return span._replace(upto=middle), span._replace(after=middle)

    def read(self, span: Span, rows: int, size: int) -> tuple[list[R], int, int]:
        """The first rows of a span.

        Args:
            span: what is wanted.
            rows: most rows.
            size: most bytes, unless the first row alone is larger.

        Returns:
            The rows, their bytes, and the number up to which they are: ``span.upto`` when these were all.

        Raises:
            RowsMissing: when Spark has committed some of them, so that they are not held any more.
        """
        held = self._lines.get(span.line)
        if held is None or held.last < span.upto:
            raise RowsMissing(f"{_shown(span)}: they have not come")
        if span.after < held.floor:
            raise RowsMissing(f"{_shown(span)}: Spark has committed them up to {held.floor}")
        first = bisect_right(held.numbers, span.after)
        stop = end = bisect_right(held.numbers, span.upto)
        stop = min(stop, first + rows)
        total, count = 0, 0
        for each in held.sizes[first:stop]:
            if count and total + each > size:
                break
            total, count = total + each, count + 1
        stop = first + count
        return held.rows[first:stop], total, span.upto if stop == end else held.numbers[stop - 1]


def _arrival_after(fresh: list[tuple[_Held[R], int]], limit: int, bound: int) -> int:
    """The largest arrival before which at most ``limit`` of some rows came; one row is always let through."""

    def before(arrival: int) -> int:
        return sum(max(0, bisect_right(held.arrivals, arrival - 1) - first) for held, first in fresh)

    low = min((held.arrivals[first] for held, first in fresh), default=bound) + 1
    high = max(bound, low)
    while low < high:
        middle = (low + high + 1) // 2
        if before(middle) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _shown(span: Span) -> str:
    return f"numbers {span.after + 1} to {span.upto} of {span.line.topic!r} of {span.line.publisher}"
