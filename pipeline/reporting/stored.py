"""What a report says of stored tables, read without Spark."""

from __future__ import annotations

from pathlib import Path

from ...protocol.errors import JournalError
from .. import missing
from ..schema import ALARMS, GAPS, QUARANTINE, STATISTICS
from .report import Results

try:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

_QUARANTINE = ["name", "topic", "error", "reason"]
_ALARMS = ["rule", "severity", "name", "topic", "message", "received_at", "value"]


def stored_results(directory: str | Path) -> Results:
    """The tables of `jobs.write_tables` or `streaming.Following`, for `report.write_report`.

    Raises:
        JournalError: when a table cannot be read.
    """
    root = Path(directory)
    statistics = _table(root / "statistics", STATISTICS, STATISTICS.names)
    gaps = _table(root / "gaps", GAPS, GAPS.names)
    quarantine = _table(root / "quarantine", QUARANTINE, _QUARANTINE)
    alarms = _table(root / "alarms", ALARMS, _ALARMS) if (root / "alarms").is_dir() else None
    facts = {
        "agents": str(statistics["publisher"].nunique()),
        "notifications": str(int(statistics["count"].sum())),
        "missing": str(int(statistics["missing"].sum())),
        "in quarantine": str(len(quarantine)),
        "alarms": "none were looked for" if alarms is None else str(len(alarms)),
    }
    if len(statistics):
        facts["sent"] = f"{statistics['first_sent'].min()} to {statistics['last_sent'].max()}"
    return Results(
        statistics=statistics.sort_values(["name", "topic"]),
        gaps=gaps,
        quarantine=quarantine,
        alarms=alarms,
        facts=facts,
        lab=False,
    )


def _table(path: Path, schema: pa.Schema, columns: list[str]) -> pd.DataFrame:
    """Some columns of a stored table; no rows when it has no files."""
    wanted = pa.schema([schema.field(name) for name in columns])
    tables = [_file(file, wanted) for file in sorted(path.rglob("*.parquet")) if _visible(file, path)]
    return pa.concat_tables(tables or [wanted.empty_table()]).to_pandas()


def _file(path: Path, wanted: pa.Schema) -> pa.Table:
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            return file.read(wanted.names).cast(wanted)
    except (OSError, pa.ArrowException) as exc:
        raise JournalError(f"table file {path} cannot be read: {exc}") from exc


def _visible(file: Path, root: Path) -> bool:
    """False for what a job has not finished."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(root).parts)
