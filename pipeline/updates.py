"""Tables that follow a journal: what is new in it, and the days that have to be made anew.

::

    segments that came since the last time → days they touch → all rows of these days, verified,
    decoded, deduplicated, judged → the days replaced in the tables → counts of all stored rows

Whatever is interrupted is done again with the same result: days are replaced as a whole, and what was
done is noted at the end.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..protocol.errors import JournalError
from . import missing
from .decode import Decoder
from .limits import Limit
from .locking import lock_file
from .schema import segment_recorder, segments

try:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as fn
except ImportError as exc:
    raise missing("pyspark") from exc

from . import jobs

STATE = "pipeline.json"
"""File among the tables: the first offset of each recorder's last segment that is in them."""

_LOCK = ".pipeline-lock"


@dataclass(frozen=True)
class Update:
    """What one run did.

    Attributes:
        segments: new ones; 0 when there was nothing to do.
        days: that were made anew, in order.
        rows: of the journal on these days.
        notifications: of them, verified and without duplicates.
        quarantined: of them, refused.
        alarms: violations of limits.
    """

    segments: int = 0
    days: tuple[datetime.date, ...] = ()
    rows: int = 0
    notifications: int = 0
    quarantined: int = 0
    alarms: int = 0


def update(
    spark: SparkSession,
    journal: str | Path,
    directory: str | Path,
    decoder: Decoder,
    limits: Sequence[Limit] = (),
) -> Update:
    """Bring the tables up to date with the journal; the first time, make them.

    Args:
        spark: the session.
        journal: directory of the journal.
        directory: of the tables; created when absent.
        decoder: of `decode.make_decoder`.
        limits: judged on the days that are made anew.

    Raises:
        JournalError: when there is no journal, or another process works on the tables.
        ConfigError: for a limit that cannot be judged.
    """
    with _claimed(directory) as root:
        done = _read_state(root)
        fresh = [
            (recorder, first, path)
            for first, path in segments(Path(journal).absolute())
            for recorder in [segment_recorder(path)]
            if first > done.get(recorder, -1)
        ]
        if not fresh:
            return Update()
        touched = jobs.read_segments(spark, [path for *_, path in fresh]).select(fn.to_date("received_at"))
        days = sorted(row[0] for row in touched.distinct().collect())
        made = _remake(spark, journal, root, decoder, limits, days, len(fresh))
        for recorder, first, _ in fresh:
            done[recorder] = max(first, done.get(recorder, -1))
        _write_state(root, done)
        return made


def backfill(
    spark: SparkSession,
    journal: str | Path,
    directory: str | Path,
    decoder: Decoder,
    first: datetime.date,
    last: datetime.date,
    limits: Sequence[Limit] = (),
) -> Update:
    """Make the days from ``first`` to ``last`` (UTC, both included) anew, whatever the tables hold.

    Days without rows in the journal stay as they are. Other arguments and errors as `update`.
    """
    with _claimed(directory) as root:
        days = [first + datetime.timedelta(n) for n in range((last - first).days + 1)]
        return _remake(spark, journal, root, decoder, limits, days, len(segments(Path(journal))))


def _remake(
    spark: SparkSession,
    journal: str | Path,
    root: Path,
    decoder: Decoder,
    limits: Sequence[Limit],
    days: Sequence[datetime.date],
    count: int,
) -> Update:
    rows = jobs.of_days(jobs.read_journal(spark, journal), days)
    tables = jobs.build_tables(rows, decoder, limits=limits)
    try:
        present = jobs.store_days(tables, root)
        numbers = [
            frame.count()
            for frame in (tables.decoded, tables.notifications, tables.quarantine, tables.alarms)
        ]
    finally:
        tables.release()
    stored = jobs.deduplicate(jobs.read_table(spark, root, "notifications"))
    absent = jobs.gaps(stored)
    jobs.store_counts(absent, jobs.topic_statistics(stored, absent), root)
    return Update(count, tuple(sorted(present)), *numbers)


@contextmanager
def _claimed(directory: str | Path) -> Iterator[Path]:
    root = Path(directory).absolute()
    root.mkdir(parents=True, exist_ok=True)
    held = lock_file(root / _LOCK, f"another process works on the tables in {directory}")
    try:
        yield root
    finally:
        os.close(held)


def _read_state(root: Path) -> dict[str, int]:
    path = root / STATE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(recorder): int(first) for recorder, first in found["recorders"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as exc:
        raise JournalError(f"{path} cannot be read, remove it to make all tables anew: {exc}") from exc


def _write_state(root: Path, done: dict[str, int]) -> None:
    temporary = root / f".{STATE}.tmp"
    temporary.write_text(json.dumps({"recorders": done}, indent=1), encoding="utf-8")
    os.replace(temporary, root / STATE)
