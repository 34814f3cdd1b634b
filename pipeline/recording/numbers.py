"""Numbers: how far a journal has each topic of each publisher, so that what comes again is left out.

::

    footer of the newest segment    last number of each line (publisher, epoch, topic) until there
    a recorder is opened            reads them; what was not acknowledged in time comes again
    numbers up to the last one      left out: they are on disk
    the first one above it          no neighbour of the last one: what lies between is lost
    a publisher is silent           for `SILENT`: its lines are forgotten, as each start is another publisher
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...delivery.cursor import Gap
from ..arrow import pa

if TYPE_CHECKING:
    from ...agents import Burst, Missed

Line = tuple[str, int, str]
"""Publisher, epoch and topic."""

KEY = b"pzc.numbers"
"""Where a segment tells them."""

HEARD = b"pzc.heard"
"""Where it tells when each of these publishers was heard last."""

ORIGIN = b"pzc.origin"
"""Where it tells which count of offsets it belongs to: a mark of the journal, and one of each start since."""

STARTS = 100
"""That are told at most, the last ones."""

SILENT = 3_600_000_000
"""In µs: by then a publisher has learned what is durable, or has ended."""

_LINE, _MAX, _HEARD = ["publisher", "epoch", "topic"], "sequence_max", "received_at_max"


class Numbers:
    """The last numbers of one recorder's journal; `note` belongs to the thread that writes.

    Args:
        footer: what the footer of its newest segment tells; None without one.
        offset: of the next row.
        most: lines that are known; of more than these the last ones that were written to.

    Attributes:
        origin: text that tells its offsets from those of a journal that was begun at another time, or went on
            from another copy (see `first_other`).

    Raises:
        ValueError: for a footer that no recorder has written.
    """

    def __init__(
        self, footer: Mapping[bytes, bytes] | None = None, offset: int = 0, most: int = 10_000
    ) -> None:
        lines: list[tuple[str, int, str, int]] = json.loads((footer or {}).get(KEY, b"[]"))
        self._last: dict[Line, int] = {(who, epoch, topic): number for who, epoch, topic, number in lines}
        self._heard: dict[str, int] = json.loads((footer or {}).get(HEARD, b"{}"))
        self.origin = uuid.uuid4().hex if footer is None else _gone_on(origin_of(footer), offset)
        self._most = most
        self._before: dict[tuple[str, int], dict[str, int]] = {}
        for (publisher, epoch, topic), number in self._last.items():
            self._before.setdefault((publisher, epoch), {})[topic] = number

    def fresh(self, burst: Burst) -> tuple[Burst, Sequence[tuple[str, Gap]]]:
        """What of a burst is not on disk, and what was lost before it, by topic."""
        before = self._before.get((burst.publisher, burst.epoch))
        if before is None:
            return burst, ()
        kept, lost = list[int](), list[tuple[str, Gap]]()
        for place, (topic, row) in enumerate(zip(burst.topics, burst.rows, strict=True)):
            last = before.get(topic)
            if last is None or row.number > last:
                kept.append(place)
                if last is not None:
                    del before[topic]
                    if row.number > last + 1:
                        lost.append((topic, Gap(burst.epoch, last + 1, row.number - 1)))
        if not before:
            del self._before[burst.publisher, burst.epoch]
        if len(kept) == len(burst.rows):
            return burst, lost
        topics, headers, rows = ([one[n] for n in kept] for one in (burst.topics, burst.headers, burst.rows))
        return replace(burst, topics=topics, headers=headers, rows=rows), lost

    def told(self, missed: Missed) -> None:
        """The publisher has told of a loss, which is not to be found once more."""
        before = self._before.get((missed.publisher, missed.gap.epoch), {})
        for topic in before.keys() if missed.topic == "*" else before.keys() & {missed.topic}:
            before[topic] = max(before[topic], missed.gap.last)

    def note(self, table: pa.Table) -> pa.Table:
        """Rows that are written now, with the numbers for the footer of their segment."""
        grouped: Any = table.group_by(_LINE).aggregate([("sequence", "max"), ("received_at", "max")])
        heard = grouped[_HEARD].cast(pa.int64()).to_pylist()
        told = zip(*(grouped[name].to_pylist() for name in (*_LINE, _MAX)), heard, strict=True)
        for publisher, epoch, topic, number, received in told:
            line = publisher, epoch, topic
            self._heard[publisher] = received
            if number:  # original Pizcos have none
                self._last[line] = max(number, self._last.pop(line, 0))
        self._forget(max(heard, default=0))
        lines = json.dumps([[*line, number] for line, number in self._last.items()])
        own = {KEY: lines, HEARD: json.dumps(self._heard), ORIGIN: self.origin}
        return table.replace_schema_metadata({**(table.schema.metadata or {}), **own})

    def _forget(self, now: int) -> None:
        """Publishers that are silent, and of too many lines the first ones."""
        known = {publisher for publisher, _, _ in self._last}
        self._heard = {each: self._heard.get(each, now) for each in known}
        kept = [line for line in self._last if self._heard[line[0]] >= now - SILENT]
        self._last = {line: self._last[line] for line in kept[-self._most :]}


def origin_of(footer: Mapping[bytes, bytes] | None) -> str:
    """`Numbers.origin` as the footer of a segment tells it; empty where it tells none."""
    return (footer or {}).get(ORIGIN, b"").decode(errors="replace")


def _gone_on(origin: str, offset: int) -> str:
    journal, *starts = origin.split(" ")
    return " ".join([journal, *starts[1 - STARTS :], f"{uuid.uuid4().hex[:8]}@{offset}"])


def journal_of(origin: str) -> str:
    """The mark of the journal in an origin, which no start changes."""
    return origin.partition(" ")[0]


def first_other(known: str, told: str) -> int | None:
    """The offset from which on an origin counts other rows than a known one; None where there is none.

    Offsets of a journal that was put back from an older copy go on at that copy's end, by a start of which
    whoever has read more of it knows nothing.
    """
    marks = {*known.split(" ")}
    return min((_start(mark) for mark in told.split(" ") if mark not in marks), default=None)


def _start(mark: str) -> int:
    offset = mark.partition("@")[2]
    return int(offset) if offset.isdecimal() and len(offset) < 19 else 0
