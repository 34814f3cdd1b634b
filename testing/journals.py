"""Journals as a recorder would have left them, made in bulk, with the truth about what is in them.

::

    Recording ─ plan (numpy, whole journal) ─▶ rows in order of receipt ─▶ segments (signed, column by column)
                        └─▶ Truth: what a pipeline has to find

Everything is drawn from a seed: the same recording gives the same rows. Every notification holds a number,
half of its sequence. Needs the extra ``pzc[pipeline]``.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..pipeline.arrow import pa, pq
from ..pipeline.parquet import written_as
from ..pipeline.schema import JOURNAL, segment_name
from ..protocol import serializers
from ..protocol.frames import PZC01, Kind, close_header, open_header
from ..protocol.ids import Stamp
from ..protocol.keyring import Key
from ..protocol.signing import Suite, sealer

SERIALIZER = "msgpack"

_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_ON_THE_WAY = 2000
_LATER = 1000

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What is to be recorded.

    Attributes:
        published: notifications of all agents together, in turn.
        agents: how many; named ``agent0``, ``agent1``, …
        topics: of every agent.
        restarts: of every agent, each at a time of its own; every start counts from 1.
        lost: share of the notifications that never came.
        repeated: share that was recorded a second time, up to 1000 rows later.
        damaged: share of which a byte of the content was changed on the disk.
        seed: of everything that is drawn, and part of the agents' ids.
        secrets: signing keys; each signs an equal part of the time, one after the other.
        start: of the first notification.
        rate: notifications per second.
        clock_step: seconds by which all clocks are set in the middle of the time.
    """

    published: int
    agents: int = 8
    topics: tuple[str, ...] = ("voltage", "current", "temperature")
    restarts: int = 1
    lost: float = 0.001
    repeated: float = 0.001
    damaged: float = 0.001
    seed: int = 0
    secrets: tuple[str, ...] = ("a key of the lab",)
    start: datetime.datetime = _START
    rate: float = 10_000.0
    clock_step: float = 0.0


@dataclass(frozen=True)
class Truth:
    """What is in a journal that was made.

    Attributes:
        rows: of the journal.
        notifications: that verify, each counted once.
        repeated: rows that repeat one of them.
        damaged: rows that do not verify.
        gaps: ranges of sequence numbers that are missing between good ones.
        missing: numbers in these ranges.
        segments: files.
        size: bytes of all files.
    """

    rows: int
    notifications: int
    repeated: int
    damaged: int
    gaps: int
    missing: int
    segments: int
    size: int


class _Rows(NamedTuple):
    """Rows in order of receipt; times in microseconds since 1970."""

    series: Numbers
    sequence: Numbers
    counter: Numbers
    sent: Numbers
    received: Numbers
    key: Numbers
    damaged: Marks

    def part(self, first: int, end: int) -> _Rows:
        """The rows of a range."""
        numbers = [column[first:end] for column in self[:-1]]
        return _Rows(*numbers, damaged=self.damaged[first:end])


class _Series(NamedTuple):
    """One topic of one start of one agent."""

    sender: str
    name: str
    topic: str
    epoch: int


def write_journal(
    directory: str | Path,
    recording: Recording,
    *,
    recorder: str = "recorder",
    rows_per_segment: int = 250_000,
    processes: int = 1,
) -> Truth:
    """Make a journal; a directory that holds segments of this recorder must be of the same recording.

    Args:
        directory: created when absent.
        recording: what is in it.
        recorder: name in the file names.
        rows_per_segment: at most so many.
        processes: that sign and write; with more than one, a script needs ``if __name__ == "__main__"``.

    Raises:
        OSError: when it cannot be written.
    """
    root = Path(directory).absolute()
    root.mkdir(parents=True, exist_ok=True)
    plan, told = _plan(recording)
    starts = range(0, len(plan.sequence), rows_per_segment)
    parts = (plan.part(first, first + rows_per_segment) for first in starts)
    write = partial(_write, root, recording, recorder)
    size = sum(_mapped(write, processes, starts, parts))
    return Truth(len(plan.sequence), *told, segments=len(starts), size=size)


def _mapped(write: Any, processes: int, starts: Sequence[int], parts: Iterator[_Rows]) -> list[int]:
    if processes == 1:
        return [write(first, rows) for first, rows in zip(starts, parts, strict=True)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(write, starts, parts))


def series_of(recording: Recording) -> list[_Series]:
    """All series, by agent, start, topic; a start that was never reached has no rows."""
    return [
        _Series(f"{recording.seed << 64 | agent + 1:032x}", f"agent{agent}", topic, agent << 16 | start + 1)
        for agent in range(recording.agents)
        for start in range(recording.restarts + 1)
        for topic in recording.topics
    ]


def _plan(recording: Recording) -> tuple[_Rows, tuple[int, int, int, int, int]]:
    """All rows, and of the truth: notifications, repeated, damaged, gaps, missing."""
    dice = np.random.default_rng(recording.seed)
    count = recording.published
    index = np.arange(count, dtype=np.int64)
    series = _series_by_index(recording, index, dice)
    sequence, by_series = _counted(series)
    chance = dice.random(count)
    lost = chance < recording.lost
    damaged = ~lost & (chance < recording.lost + recording.damaged)
    good = ~lost & ~damaged
    again = index[good & (dice.random(count) < recording.repeated)]
    came = np.concatenate((index[~lost], again))
    position = np.concatenate((index[~lost], again + dice.integers(1, _LATER, len(again))))
    order = np.argsort(position, kind="stable")
    which, position = came[order], position[order]
    rows = _Rows(
        series=series[which],
        sequence=sequence[which],
        counter=which,
        sent=_times(recording, which),
        received=_times(recording, position) + _ON_THE_WAY,
        key=which * len(recording.secrets) // max(1, count),
        damaged=damaged[which],
    )
    gaps, absent = _holes(series, sequence, by_series[good[by_series]])
    return rows, (int(good.sum()), len(again), int(damaged.sum()), gaps, absent)


def _series_by_index(recording: Recording, index: Numbers, dice: np.random.Generator) -> Numbers:
    agent = index % recording.agents
    topic = index // recording.agents % len(recording.topics)
    start = np.zeros_like(index)
    for number in range(recording.agents):
        moments = np.sort(dice.integers(0, max(1, recording.published), recording.restarts))
        own = index[number :: recording.agents]
        start[number :: recording.agents] = np.searchsorted(moments, own, side="right")
    return (agent * (recording.restarts + 1) + start) * len(recording.topics) + topic


def _counted(series: Numbers) -> tuple[Numbers, Numbers]:
    """Sequence of each notification, from 1 in its series; and all notifications by series and sequence."""
    order = np.argsort(series, kind="stable")
    grouped = series[order]
    fresh = np.flatnonzero(np.diff(grouped, prepend=-1))
    sequence = np.empty_like(series)
    sequence[order] = np.arange(1, len(series) + 1) - np.repeat(fresh, np.diff(fresh, append=len(series)))
    return sequence, order


def _holes(series: Numbers, sequence: Numbers, good: Numbers) -> tuple[int, int]:
    """Ranges that are missing between good notifications, and numbers in them."""
    steps = np.diff(sequence[good])[np.diff(series[good]) == 0] - 1
    return int((steps > 0).sum()), int(steps.sum())


def _times(recording: Recording, position: Numbers) -> Numbers:
    """Microseconds since 1970, as the clocks showed them then."""
    start = round(recording.start.timestamp() * 1e6)
    stepped = (position >= recording.published // 2) * round(recording.clock_step * 1e6)
    return start + (position * (1e6 / recording.rate)).astype(np.int64) + stepped


def _write(root: Path, recording: Recording, recorder: str, first: int, rows: _Rows) -> int:
    """Write one segment; its size in bytes."""
    table = _table(recording, recorder, first, rows)
    name = segment_name(recorder, first)
    temporary = root / f".{name}.tmp"
    pq.write_table(table, temporary, **written_as(table.schema))
    os.replace(temporary, root / name)
    return (root / name).stat().st_size


def _table(recording: Recording, recorder: str, first: int, rows: _Rows) -> pa.Table:
    known = series_of(recording)
    keys = [Key(secret) for secret in recording.secrets]
    header, content, msgid, signature = _frames(known, keys, rows)
    size = len(header)
    columns: dict[str, Any] = {
        "header": header,
        "serializer": pa.repeat(pa.scalar(SERIALIZER.encode()), size),
        "content": content,
        "msgid": msgid,
        "signature": signature,
        "recorder": pa.repeat(pa.scalar(recorder), size),
        "offset": np.arange(first, first + size),
        "received_at": rows.received,
        "publisher": _taken([each.sender for each in known], rows.series),
        "name": _taken([each.name for each in known], rows.series),
        "epoch": np.array([each.epoch for each in known])[rows.series],
        "topic": _taken([each.topic for each in known], rows.series),
        "sequence": rows.sequence,
        "sent_at": rows.sent,
        "key_id": _taken([key.key_id for key in keys], rows.key),
        "content_ref": pa.nulls(size, pa.string()),
    }
    arrays = [pa.array(columns[field.name], field.type) for field in JOURNAL]
    return pa.Table.from_arrays(arrays, schema=JOURNAL)


def _taken(values: list[str], indices: Numbers) -> pa.Array:
    return pa.array(values).take(pa.array(indices))


def _frames(known: list[_Series], keys: list[Key], rows: _Rows) -> tuple[list[bytes], ...]:
    """Frames 0, 2, 3 and 4 of all rows."""
    name = SERIALIZER.encode()
    openings = [open_header(PZC01, each.sender, each.topic) for each in known]
    epochs = [each.epoch for each in known]
    mark, ends = bytes((Suite.HMAC_SHA256,)), [key.key_id.encode() for key in keys]
    seals = [sealer(key, Suite.HMAC_SHA256, Kind.NOTIFICATION, "", "", 0).seal for key in keys]
    encode = serializers.encode
    headers: list[bytes] = []
    contents: list[bytes] = []
    msgids: list[bytes] = []
    signatures: list[bytes] = []
    numbers = (column.tolist() for column in (rows.series, rows.sequence, rows.counter, rows.sent // 1000))
    for series, sequence, counter, ms, key in zip(*numbers, rows.key.tolist(), strict=True):
        header = close_header(openings[series], sequence, "")
        content = bytes(encode(SERIALIZER, sequence / 2))
        stamp = Stamp(ms, counter, epochs[series])
        msgid = stamp.urn_frame()
        tag, _ = seals[key](stamp, header, name, msgid, content)
        headers.append(header)
        contents.append(content)
        msgids.append(msgid)
        signatures.append(mark + tag + ends[key])
    for i in np.flatnonzero(rows.damaged).tolist():
        contents[i] = contents[i][:-1] + bytes([contents[i][-1] ^ 1])
    return headers, contents, msgids, signatures
