"""DuckDB as this package asks it: tables in memory, no files, no network, times in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import missing

if TYPE_CHECKING:
    import duckdb

_SETTINGS: dict[str, Any] = {
    # A query sees what it is given, and neither files nor variables of the program around it.
    "enable_external_access": "false",
    "python_enable_replacements": "false",
}


def connection(threads: int = 0) -> duckdb.DuckDBPyConnection:
    """A database of its own, to be closed by whoever opened it.

    Args:
        threads: that it may use; 0 lets it have one per core.

    Raises:
        MissingRequirement: when DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as exc:
        raise missing("duckdb", "sql") from exc
    made = duckdb.connect(config=_SETTINGS | ({"threads": str(threads)} if threads else {}))
    made.execute("SET TimeZone='UTC'")
    return made


def line(error: Exception) -> str:
    """What DuckDB says, without the place in the query that it draws."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())
