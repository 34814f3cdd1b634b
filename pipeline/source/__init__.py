"""The direct source: ``spark.readStream.format("pzc")`` over the mailboxes of agents, without a journal.

::

    source.py     PzcDataSource, register, read_stream
    readers.py    what Spark calls: the streaming reader, the batch reader, what its workers do
    spool.py      what comes out of mailboxes, on disk before it is acknowledged
    looking.py    what mailboxes hold, without taking it
    mailboxes.py  how the subscriptions of a reader stand
    options.py    what a query asks for
    parent.py     a process that ends when its parent does
"""

from __future__ import annotations

from .source import PzcDataSource, read_stream, register

__all__ = ["PzcDataSource", "read_stream", "register"]
