"""What follows from the state of the tables: small tables of one file, and windows that are over."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..arrow import pa, pq
from ..schema import DAMAGED, GAPS, RESTARTS, STATISTICS, WINDOWS
from ..storage import Storage, make_private
from .quantile_sketch import Figures
from .state import State, Window
from .summary import File

_DAY = 86_400_000_000


def write_small(root: Path, state: State, storage: Storage) -> None:
    """Write ``gaps``, ``restarts``, ``statistics`` and ``damaged`` in place of those before."""
    _replace(root / "gaps", GAPS, list(state.gaps()), storage)
    _replace(root / "restarts", RESTARTS, list(_restarts(state)), storage)
    _replace(root / "statistics", STATISTICS, list(_statistics(state)), storage)
    _replace(root / "damaged", DAMAGED, list(_damaged(state)), storage)


def stage_windows(
    stage: Path,
    named: str,
    closed: Sequence[tuple[tuple[str, str, int], Window]],
    width: int,
    storage: Storage,
) -> list[File]:
    """Write windows that are over; the files, which are in the stage."""
    days: dict[int, list[dict[str, Any]]] = {}
    for (publisher, topic, place), window in closed:
        row = window_row(publisher, topic, place, window, width)
        days.setdefault(place * width // _DAY, []).append(row)
    found: list[File] = []
    for day, rows in days.items():
        place = f"windows/{day_folder(day)}/{named}.parquet"
        make_private((stage / place).parent)
        content = _parquet(WINDOWS, rows)
        storage.write(stage / place, content)
        starts = [row["window_start"] for row in rows]
        found.append(File(place, len(rows), len(content), min(starts), max(starts)))
    return found


def day_folder(day: int) -> str:
    """Folder of a day, given as days since 1970."""
    return f"date={datetime.date(1970, 1, 1) + datetime.timedelta(day)}"


def window_row(publisher: str, topic: str, place: int, window: Window, width: int) -> dict[str, Any]:
    """A row of `schema.WINDOWS`; ``width`` in µs."""
    cell = window.cell
    return {
        "publisher": publisher,
        "name": window.name,
        "topic": topic,
        "window_start": place * width,
        "window_end": (place + 1) * width,
        "count": cell.count,
        "rate_hz": cell.count * 1e6 / width,
        **_ages(cell.ages),
        **_values(cell.values),
        "p50": cell.values.quantile(0.5),
        "p90": cell.values.quantile(0.9),
        "p99": cell.values.quantile(0.99),
    }


def _statistics(state: State) -> Iterator[dict[str, Any]]:
    missing: dict[tuple[str, str], int] = {}
    epochs: dict[tuple[str, str], set[int | None]] = {}
    for (publisher, epoch, topic), one in state.series.items():
        key = (publisher, topic)
        missing[key] = missing.get(key, 0) + one.seen.missing
        epochs.setdefault(key, set()).add(epoch)
    for (publisher, topic), one in sorted(state.topics.items()):
        if not one.count:
            continue
        span = (one.last_sent - one.first_sent) / 1e6 if one.first_sent and one.last_sent else 0.0
        yield {
            "publisher": publisher,
            "name": one.name,
            "topic": topic,
            "epochs": len(epochs[publisher, topic] - {None}),
            "count": one.count,
            "missing": missing[publisher, topic],
            "late": one.late,
            "duplicates": one.duplicates,
            "first_sent": one.first_sent,
            "last_sent": one.last_sent,
            "rate_hz": (one.timed - 1) / span if span else None,
            **_ages(one.ages),
            **_values(one.values),
        }


def _ages(ages: Figures) -> dict[str, float | None]:
    any_ = ages.count > 0
    return {
        "age_min_ms": ages.least if any_ else None,
        "age_mean_ms": ages.mean if any_ else None,
        "age_max_ms": ages.greatest if any_ else None,
        "age_p99_ms": ages.quantile(0.99),
    }


def _values(values: Figures) -> dict[str, float | int | None]:
    any_ = values.count > 0
    return {
        "values": values.count,
        "min": values.least if any_ else None,
        "max": values.greatest if any_ else None,
        "mean": values.mean if any_ else None,
        "std": values.std(),
    }


def _restarts(state: State) -> Iterator[dict[str, Any]]:
    by_publisher: dict[str, list[tuple[int, int, str | None]]] = {}
    for (publisher, epoch), (name, since) in state.epochs().items():
        if epoch is not None:
            by_publisher.setdefault(publisher, []).append((since, epoch, name))
    for publisher, found in by_publisher.items():
        found.sort(key=lambda one: one[:2])
        for (_, before, _), (since, epoch, name) in pairwise(found):
            yield {
                "publisher": publisher,
                "name": name,
                "epoch": epoch,
                "epoch_before": before,
                "received_at": since,
            }


def _damaged(state: State) -> Iterator[dict[str, Any]]:
    for one in state.damaged:
        yield {
            "file": one.file, "rows": one.rows, "read": one.read, "reason": one.reason, "found_at": one.found,
        }  # fmt: skip


def _replace(folder: Path, schema: pa.Schema, rows: list[dict[str, Any]], storage: Storage) -> None:
    """Write a table of one file, unless it is the same."""
    content, target = _parquet(schema, rows), folder / "all.parquet"
    storage.make_folder(folder)
    if not target.exists() or target.read_bytes() != content:
        storage.replace(target, content)


def _parquet(schema: pa.Schema, rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    return sink.getvalue().to_pybytes()
