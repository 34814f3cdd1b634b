"""DuckDB as this package asks it: tables in memory, no files, no network, times in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import missing

if TYPE_CHECKING:
    import duckdb

VIEWS = {
    "windows": """
        SELECT
            publisher, max(name) AS name, topic, window_start,
            least(window_start + INTERVAL 1 MINUTE, TIMESTAMP '9999-12-31 23:59:59.999999') AS window_end,
            count(*) AS count, count(*) / 6e1 AS rate_hz,
            min(age) AS age_min_ms, avg(age) AS age_mean_ms, max(age) AS age_max_ms,
            percentile_cont(0.99) WITHIN GROUP (ORDER BY age) AS age_p99_ms,
            count(value) AS values, min(value) AS min, max(value) AS max, avg(value) AS mean,
            CASE WHEN max(abs(value)) < 1e150
                THEN stddev_pop(CASE WHEN abs(value) < 1e150 THEN value END) END AS std,
            percentile_cont(0.5) WITHIN GROUP (ORDER BY value) AS p50,
            percentile_cont(0.9) WITHIN GROUP (ORDER BY value) AS p90,
            percentile_cont(0.99) WITHIN GROUP (ORDER BY value) AS p99,
            CAST(window_start AS DATE) AS date
        FROM (
            SELECT
                publisher, name, topic,
                date_trunc('minute', coalesce(sent_at, received_at)) AS window_start,
                (unix_micros(received_at) - unix_micros(sent_at)) / 1e3 AS age,
                nullif(coalesce(value_double, CAST(value_long AS DOUBLE)), CAST('NaN' AS DOUBLE)) AS value
            FROM notifications
        )
        GROUP BY publisher, topic, window_start
    """
}
"""Views of the tables, in SQL that DuckDB and Spark both read.

``windows`` has a row for each publisher, topic and minute of the time of sending, or of receipt where that is
not known. ``rate_hz`` is the count by 60 s; NaN is not a value; ``std`` is the population's, and null where
its squares would not fit into a double.
"""

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
    made.execute("CREATE MACRO unix_micros(t) AS epoch_us(t)")  # as Spark calls it, for `VIEWS`
    return made


def line(error: Exception) -> str:
    """What DuckDB says, without the place in the query that it draws."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())
