"""What a report says of stored tables, read without Spark."""

from __future__ import annotations

from pathlib import Path

from ...protocol.errors import JournalError
from ..arrow import pa
from ..schema import GAPS, STATISTICS
from ..snapshot import Tables
from .report import Results
from .series import panels, shots
from .texts import pd, show

_QUARANTINE = ["name", "topic", "error", "reason"]
_ALARMS = ["rule", "severity", "name", "topic", "message", "received_at", "value"]


def stored_results(directory: str | Path) -> Results:
    """The tables of a pipeline, for `report.write_report`.

    Raises:
        JournalError: when there are no tables, or one cannot be read.
    """
    tables = Tables(directory)
    statistics = _table(tables, "statistics", STATISTICS.names)
    gaps = _table(tables, "gaps", GAPS.names)
    quarantine = _table(tables, "quarantine", _QUARANTINE)
    alarms = _table(tables, "alarms", _ALARMS) if (tables.directory / "alarms").is_dir() else None
    facts = {
        "agents": str(statistics["publisher"].nunique()),
        "notifications": str(int(statistics["count"].sum())),
        "missing": str(int(statistics["missing"].sum())),
        "in quarantine": str(len(quarantine)),
        "alarms": "none were looked for" if alarms is None else str(len(alarms)),
    }
    if len(statistics):
        facts["sent"] = f"{show(statistics['first_sent'].min())} to {show(statistics['last_sent'].max())} UTC"
    return Results(
        statistics=statistics.sort_values(["name", "topic"]),
        gaps=gaps,
        quarantine=quarantine,
        alarms=alarms,
        facts=facts,
        series=panels(tables),
        shots=shots(tables),
    )


def _table(tables: Tables, name: str, columns: list[str]) -> pd.DataFrame:
    try:
        return tables[name].to_table(columns).to_pandas()
    except (OSError, pa.ArrowException) as exc:
        raise JournalError(f"table {name} in {tables.directory} cannot be read: {exc}") from exc
