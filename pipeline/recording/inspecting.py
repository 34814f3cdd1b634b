"""What is in a journal: spans, topics, keys, gaps, damage; and whether its signatures hold.

Nothing is written. What is counted is what the recorder wrote beside the frames; a decoder verifies each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...protocol.errors import JournalError
from ..arrow import pa
from ..decoding.decode import Decoder
from ..schema import all_segments, segment_recorder, segments
from ..tables.interval_set import IntervalSet
from ..tables.summary import runs_of
from .flush import flush
from .gaps import read_gaps
from .reading import SegmentGone, batches, check_journal

KINDS = 1000
"""Kinds of refused rows that are told apart; rows of further kinds are counted under ``more``."""

_SERIES = ("publisher", "name", "epoch", "topic", "key_id")
_COLUMNS = (*_SERIES, "recorder", "offset", "sequence", "received_at")


@dataclass
class Topic:
    """What is recorded of one topic of an agent, through all its starts: each has another id under one name.

    Attributes:
        publisher: id, or endpoint, of the newest start.
        name: of the agent, empty when it has none.
        topic: as published.
        rows: of the journal.
        repeated: of them, copies of a number that is there.
        missing: numbers that are absent between the first and the last one of each start.
        starts: of the agent.
        keys: ids of the keys that signed; empty text for what is unsigned.
        first: receipt, µs since 1970.
        last: as ``first``.
    """

    publisher: str
    name: str
    topic: str
    rows: int = 0
    repeated: int = 0
    missing: int = 0
    starts: int = 0
    keys: set[str] = field(default_factory=set[str])
    first: int = 1 << 62
    last: int = 0


@dataclass
class Inspection:
    """What `inspect` has found.

    Attributes:
        segments: that could be read.
        rows: in them.
        size: of all files of segments, in bytes.
        blobs: contents that are kept apart.
        blob_size: bytes of them.
        recorders: rows by recorder.
        topics: by name and topic.
        lost: messages that recorders know to be missing, by reason.
        damaged: what is wrong with a segment, by its file name.
        strays: names in the folder that no journal has.
        refused: rows that do not verify or decode, by name, topic, error and reason; None when nobody looked.
    """

    segments: int = 0
    rows: int = 0
    size: int = 0
    blobs: int = 0
    blob_size: int = 0
    recorders: Counter[str] = field(default_factory=Counter[str])
    topics: list[Topic] = field(default_factory=list[Topic])
    lost: Counter[str] = field(default_factory=Counter[str])
    damaged: dict[str, str] = field(default_factory=dict[str, str])
    strays: list[str] = field(default_factory=list[str])
    refused: Counter[tuple[str, str, str, str]] | None = None

    @property
    def ok(self) -> bool:
        """Whether every segment could be read, and no row was refused."""
        return not self.damaged and not self.refused


def inspect(directory: str | Path, decoder: Decoder | None = None) -> Inspection:
    """Look at a journal.

    Args:
        directory: of it.
        decoder: of `decode.make_decoder`; verifies each row.

    Raises:
        JournalError: when there is no journal, or it is of a newer form.
    """
    root = Path(directory)
    flush(root)
    check_journal(root)
    found = Inspection(refused=None if decoder is None else Counter())
    _look_around(root, found)
    count = _Count()
    for _, path in segments(root):
        try:
            for batch in batches(path, _COLUMNS if decoder is None else None):
                count.add(batch)
                found.rows += len(batch)
                found.recorders[segment_recorder(path)] += len(batch)
                if decoder is not None and found.refused is not None:
                    _verify(decoder([batch]), found.refused)
        except SegmentGone:  # too old, and removed meanwhile
            continue
        except JournalError as exc:
            found.damaged[path.name] = str(exc)
        else:
            found.segments += 1
    found.topics = count.topics()
    return found


def _look_around(root: Path, found: Inspection) -> None:
    known = {path for _, path, _ in all_segments(root)}
    found.size = sum(map(_size, known))
    for path in sorted(set(root.iterdir()) - known):
        if not path.name.startswith((".", "_gaps-")) and path.name != "blobs":
            found.strays.append(path.name)
    for path in (root / "blobs").glob("*/*"):
        found.blobs += 1
        found.blob_size += _size(path)
    for gap in read_gaps(root):
        found.lost[gap.reason] += gap.count


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # its recorder has removed it meanwhile
        return 0


def _verify(decoded: Iterable[pa.RecordBatch], refused: Counter[tuple[str, str, str, str]]) -> None:
    for batch in decoded:
        error = batch.column("error")
        if error.null_count == len(batch):
            continue
        bad = batch.filter(error.is_valid()).select(["name", "topic", "error", "reason"])
        for row in bad.to_pylist():
            kind = row["name"] or "", row["topic"] or "", row["error"], row["reason"]
            refused[kind if kind in refused or len(refused) < KINDS else ("", "", "more", "")] += 1


class _Count:
    """Rows by agent and topic."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, str], Topic] = {}
        self._seen: dict[tuple[str, str], dict[tuple[str, int], IntervalSet]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch with `_COLUMNS`."""
        columns = {name: batch.column(name) for name in (*_SERIES, "sequence")}
        table: Any = pa.table({**columns, "received": batch.column("received_at").cast(pa.int64())})
        wanted = [("received", "min"), ("received", "max"), ("sequence", "list")]
        grouped = table.group_by(list(_SERIES)).aggregate(wanted)
        for row in grouped.to_pylist():
            publisher, name, topic = (row[column] or "" for column in ("publisher", "name", "topic"))
            key = name or publisher, topic
            known = self._topics.setdefault(key, Topic(publisher, name, topic))
            known.rows += len(row["sequence_list"])
            known.keys.add(row["key_id"] or "")
            known.publisher = publisher if row["received_max"] > known.last else known.publisher
            known.first = min(known.first, row["received_min"])
            known.last = max(known.last, row["received_max"])
            numbers = sorted(number for number in row["sequence_list"] if number)
            start = self._seen.setdefault(key, {}).setdefault((publisher, row["epoch"] or 0), IntervalSet())
            self._note(known, start, np.array(numbers, np.int64))

    @staticmethod
    def _note(topic: Topic, seen: IntervalSet, numbers: np.ndarray) -> None:
        before = seen.count
        seen.update(IntervalSet(runs_of(numbers)))
        topic.repeated += len(numbers) - (seen.count - before)

    def topics(self) -> list[Topic]:
        """By name and topic."""
        for key, starts in self._seen.items():
            found = self._topics[key]
            found.starts = len(starts)
            found.missing = sum(seen.missing for seen in starts.values())
        return sorted(self._topics.values(), key=lambda each: (each.name or each.publisher, each.topic))
