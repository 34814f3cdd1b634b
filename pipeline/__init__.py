"""Pipeline: from notifications on the wire to verified tables and a report.

::

    journal.py   rows of five frames, durable on disk before they are acknowledged
    schema.py    columns of the journal and of every table
    decode.py    verify and decode rows inside Spark's Python workers
    session.py   an embedded Spark session with settings that suit one machine
    jobs.py      DataFrames in, DataFrames out: deduplicate, gaps, statistics, tables
    plots.py     figures as data URIs
    report.py    one self-contained HTML page, and tables for the terminal

Needs the extra ``pzc[pipeline]``; Spark needs Java 17 or newer as well.
"""

from __future__ import annotations

from ..protocol.errors import MissingRequirement


def missing(package: str, extra: str = "pipeline") -> MissingRequirement:
    """The error for an absent optional package, saying how to install it."""
    return MissingRequirement(f"{package} is not installed: pip install 'pzc[{extra}]'")
