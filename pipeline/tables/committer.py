"""The folder of tables, as the driver works on it: staged files moved in, small tables written.

Everything here is one file system that every node reaches: a rename makes a file visible as a whole.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from .. import missing
from ..durable import make_folder, replace_file, sync_folder, write_file
from ..private import make_private
from ..schema import DAMAGED, GAPS, RESTARTS, STATISTICS, WINDOWS
from .commit_log import Window
from .quantile_sketch import Figures
from .state import State

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

STAGE = ".staging"
"""Folder among the tables; nobody reads it, Spark ignores hidden names."""

ROWS = ("notifications", "quarantine", "alarms")
"""Tables whose rows are filed by the workers, by date and agent."""

_FILE = re.compile(r"(?P<run>[0-9a-f]{8})-(?P<batch>\d{9})(?:-\d{5})?\.parquet")
_DAY = 86_400_000_000


def label(run: str, batch: int) -> str:
    """How the names of a batch's files begin."""
    return f"{run}-{batch:09d}"


def new_run() -> str:
    """A name that no batch has had, so that files of one never stand in the place of others."""
    return uuid.uuid4().hex[:8]


def clear_stage(root: Path) -> Path:
    """Empty the stage; its folder."""
    stage = root / STAGE
    shutil.rmtree(stage, ignore_errors=True)
    make_private(stage)
    return stage


def move_in(root: Path, files: Iterable[str]) -> None:
    """Move staged files, which are on disk, to their tables; they are there for good when this returns."""
    folders: set[Path] = set()
    for place in files:
        target = root / place
        if target.parent not in folders:
            make_folder(target.parent)
            folders.add(target.parent)
        os.replace(root / STAGE / place, target)
    for folder in folders:
        sync_folder(folder)


def remove_unfinished(root: Path, state: State) -> int:
    """Remove the files of batches that the commit log does not have; how many there were."""
    removed = 0
    for name in (*ROWS, "windows"):
        for path in (root / name).rglob("*.parquet"):
            if not is_committed(path, state.runs):
                path.unlink()
                removed += 1
    return removed


def is_committed(path: Path, runs: Mapping[str, int] | None) -> bool:
    """Whether a file of a table is one of a batch that is done, or of no batch.

    Args:
        path: of the file.
        runs: of the commit log; None without one.
    """
    found = _FILE.fullmatch(path.name)
    return found is None or runs is None or int(found["batch"]) <= runs.get(found["run"], -1)


def stored_runs(root: Path) -> dict[str, int]:
    """The last batch that has files in the tables, by the beginning of their names; see `label`."""
    runs: dict[str, int] = {}
    for name in (*ROWS, "windows"):
        for path in (root / name).rglob("*.parquet"):
            if found := _FILE.fullmatch(path.name):
                runs[found["run"]] = max(int(found["batch"]), runs.get(found["run"], -1))
    return runs


def has_rows(root: Path) -> bool:
    """Whether there are stored notifications."""
    return any((root / "notifications").rglob("*.parquet"))


def remove_days(root: Path, days: Iterable[str]) -> None:
    """Remove days from the tables of rows, for good."""
    some = list(days)
    for name in ROWS:
        remove_days_of(root / name, some)


def remove_days_of(table: Path, days: Iterable[str]) -> None:
    """Remove days from one table, for good."""
    if table.is_dir():
        for day in days:
            shutil.rmtree(table / f"date={day}", ignore_errors=True)
        sync_folder(table)


def write_small(root: Path, state: State) -> None:
    """Write ``gaps``, ``restarts``, ``statistics`` and ``damaged`` in place of those before."""
    _replace(root / "gaps", GAPS, list(state.gaps()))
    _replace(root / "restarts", RESTARTS, list(_restarts(state)))
    _replace(root / "statistics", STATISTICS, list(_statistics(state)))
    _replace(root / "damaged", DAMAGED, list(_damaged(state)))
    for name in ROWS:
        make_folder(root / name)
    make_folder(root / "windows")


def stage_windows(
    stage: Path, named: str, closed: Sequence[tuple[tuple[str, str, int], Window]], width: int
) -> list[str]:
    """Write windows that are over; their places below the stage."""
    days: dict[int, list[dict[str, Any]]] = {}
    for (publisher, topic, place), window in closed:
        row = window_row(publisher, topic, place, window, width)
        days.setdefault(place * width // _DAY, []).append(row)
    found: list[str] = []
    for day, rows in days.items():
        place = f"windows/{day_folder(day)}/{named}.parquet"
        make_private((stage / place).parent)
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, WINDOWS), sink)
        write_file(stage / place, sink.getvalue().to_pybytes())
        found.append(place)
    return found


def day_folder(day: int) -> str:
    """Folder of a day, given as days since 1970."""
    import datetime

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
    for publisher, epoch, topic in state.seen:
        key = (publisher, topic)
        holes = state.holes((publisher, epoch, topic))
        missing[key] = missing.get(key, 0) + sum(last - first + 1 for first, last in holes)
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


def _replace(folder: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    """Write a table of one file."""
    make_folder(folder)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    content = sink.getvalue().to_pybytes()
    target = folder / "all.parquet"
    if not target.exists() or target.read_bytes() != content:
        replace_file(target, content)
    for path in folder.iterdir():  # a batch job of before may have left its files
        if path != target and path.is_file():
            path.unlink()
