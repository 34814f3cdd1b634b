"""Pipeline: from notifications on the wire to verified tables and a report.

::

    schema.py    names of a journal's files, columns of the journal and of every table
    parquet.py   how files are written, and several as one
    storage.py   files and folders: private, locked, durable
    snapshot.py  the tables as they are now, and SQL over them
    sql.py       DuckDB, without files and network
    alarm_rules.py  SQL expressions in a file, and the notifications that violate them
    recording/   notifications into a journal, and out of it again
    decoding/    rows verified and decoded
    spark/       session, cluster, tasks
    tables/      tables that follow a journal, exactly once
    reporting/   the report

Needs the extra ``pzc[pipeline]``; Spark needs Java 17 or newer as well.
"""

from __future__ import annotations

from ..protocol.errors import MissingRequirement


def missing(package: str, extra: str = "pipeline") -> MissingRequirement:
    """The error for an absent optional package, saying how to install it."""
    return MissingRequirement(f"{package} is not installed: pip install 'pzc[{extra}]'")
