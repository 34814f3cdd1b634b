"""The direct source: ``spark.readStream.format("pzc")`` over the mailboxes of agents, without a journal.

::

    source.py     PzcDataSource, register, read_stream
    readers.py    what Spark calls: the streaming reader, the batch reader, what its workers do
    spool.py      what comes out of mailboxes, on disk before it is acknowledged
    mailboxes.py  how the subscriptions of a reader stand, and what they hold, without taking it
    options.py    what a query asks for
"""

from __future__ import annotations

from .source import PzcDataSource, read_stream, register

__all__ = ["PzcDataSource", "read_stream", "register"]
