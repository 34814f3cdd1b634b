"""The direct source: ``spark.readStream.format("pzc")`` over the mailboxes of agents, without a journal.

::

    source.py    PzcDataSource, register, read_stream
    readers.py   what Spark calls: the streaming reader, the batch reader, what its workers do
    receiver.py  the one process of a query that reads the mailboxes, and serves their rows to workers
    joining.py   subscriptions to the agents that a query names, now or when they come
    buffer.py    what came and is not acknowledged, and which of it a batch has (pure)
    offsets.py   how far a query has come (pure)
    options.py   what a query asks for
    batches.py   notifications as Arrow
    listener.py  acknowledges at once what Spark has committed
    parent.py    a process that ends when its parent does
"""

from __future__ import annotations

from .listener import SourceListener
from .source import PzcDataSource, read_stream, register

__all__ = ["PzcDataSource", "SourceListener", "read_stream", "register"]
