"""What follows from the state of the tables: small tables of one file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from ..arrow import pa, pq
from ..schema import TABLES
from ..storage import Storage
from .state import State, Topic

_MOST = (1 << 63) - 1
"""What a column of whole numbers can hold."""


SHARE = 0.1
"""Of the time, at most, in which small tables are written."""


class SmallTables:
    """``gaps``, ``restarts``, ``statistics`` and ``damaged``, in the place of those before.

    They are made of the whole state, however little has changed of it, and it grows with every start of an
    agent. So they may be behind it: after each time they rest for as long as `SHARE` asks.

    Args:
        root: of the tables.
        storage: writes.
        clock: monotonic seconds.
    """

    def __init__(self, root: Path, storage: Storage, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._storage, self._clock = root, storage, clock
        self._behind, self._rests_until = False, -math.inf

    def changed(self, state: State) -> None:
        """Write them, when it is time; else `catch_up` has to."""
        self._behind = True
        self.catch_up(state)

    def catch_up(self, state: State, at_once: bool = False) -> None:
        """Write what was not yet; when it is time, or at once."""
        began = self._clock()
        if self._behind and (at_once or began >= self._rests_until):
            self._write(state)
            ended = self._clock()
            self._behind, self._rests_until = False, ended + (ended - began) * (1 / SHARE - 1)

    def _write(self, state: State) -> None:
        damaged = map(msgspec.structs.astuple, state.damaged)
        rows = {"gaps": state.gaps(), "restarts": _restarts(state), "statistics": _statistics(state)}
        for name, found in {**rows, "damaged": damaged}.items():
            content, target = _parquet(name, found), self._root / name / "all.parquet"
            self._storage.make_folder(target.parent)
            if not target.exists() or target.read_bytes() != content:
                self._storage.replace(target, content)


def _statistics(state: State) -> Iterator[tuple[object, ...]]:
    missing: dict[tuple[str, str], int] = {}
    epochs: dict[tuple[str, str], set[int | None]] = {}
    for (publisher, epoch, topic), one in state.series.items():
        key = (publisher, topic)
        missing[key] = min(missing.get(key, 0) + one.seen.missing, _MOST)
        epochs.setdefault(key, set()).add(epoch)
    for publisher, topic in sorted(state.topics):
        one = state.topic(publisher, topic)
        if not one.count:
            continue
        span = (one.last_sent - one.first_sent) / 1e6 if one.first_sent and one.last_sent else 0.0
        counts = len(epochs[publisher, topic] - {None}), one.count, missing[publisher, topic]
        rate = (one.timed - 1) / span if span else None
        told = *counts, one.late, one.duplicates, one.first_sent, one.last_sent, rate
        yield publisher, one.name, topic, *told, *_figures(one)


def _figures(of: Topic) -> tuple[float | int | None, ...]:
    """The columns of ages and of values, in the order in which `schema` has them."""
    ages, values = of.ages, of.values
    least, mean, greatest = (ages.least, ages.mean, ages.greatest) if ages.count else (None,) * 3
    low, high, middle = (values.least, values.greatest, values.mean) if values.count else (None,) * 3
    return least, mean, greatest, ages.quantile(0.99), values.count, low, high, middle, values.std()


def _restarts(state: State) -> Iterator[tuple[object, ...]]:
    by_agent: dict[str, list[tuple[int, int, str, str | None]]] = {}
    for (publisher, epoch), (name, since) in state.epochs().items():
        if epoch is not None:  # each start has an id of its own: it is known by its name
            by_agent.setdefault(name or publisher, []).append((since, epoch, publisher, name))
    for found in by_agent.values():
        found.sort(key=lambda one: one[:2])
        for (_, before, *_), (since, epoch, publisher, name) in pairwise(found):
            yield publisher, name, epoch, before, since


def _parquet(name: str, rows: Iterable[Sequence[object]]) -> bytes:
    """A file of a table; rows have its columns in order."""
    schema, sink = TABLES[name], pa.BufferOutputStream()
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), sink)
    return sink.getvalue().to_pybytes()
