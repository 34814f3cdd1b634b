"""Pipeline: from notifications on the wire to verified tables and a report.

::

    recorder.py  an agent that writes what others publish to a journal
    journal.py   rows of five frames, durable on disk before they are acknowledged
    locking.py   a lock that ends with its process
    replay.py    a journal published again, at the recorded times
    schema.py    columns of the journal and of every table
    decode.py    verify and decode rows inside Spark's Python workers
    scalars.py   pickles of plain scalars by the shortest safe way
    session.py   an embedded Spark session with settings that suit one machine
    jobs.py      DataFrames in, DataFrames out: deduplicate, gaps, statistics, tables
    limits.py    SQL expressions in a file, and the rows that violate them
    updates.py   tables that follow a journal, and days made anew
    stored.py    what a report says of stored tables, read without Spark
    plots.py     figures as data URIs
    report.py    one self-contained HTML page
    texts.py     tables and cells as text

Needs the extra ``pzc[pipeline]``; Spark needs Java 17 or newer as well.
"""

from __future__ import annotations

from ..protocol.errors import MissingRequirement


def missing(package: str, extra: str = "pipeline") -> MissingRequirement:
    """The error for an absent optional package, saying how to install it."""
    return MissingRequirement(f"{package} is not installed: pip install 'pzc[{extra}]'")
