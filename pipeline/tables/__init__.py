"""Tables: stored once, whatever happens, while a journal grows or agents publish.

::

    streaming.py          tables that follow a feed, by one streaming query
    feeds.py              what feeds them: a journal, or mailboxes
    batches.py            one batch of rows into the tables, exactly once
    rebuilding.py         days made anew, and what is stored counted anew
    unread.py             which segments have rows that no batch has handled
    work.py               what a worker does with segments, from a task to a report
    workers.py            what Spark's Python workers run
    partition_writer.py   rows of one task: copies left out, filed and counted; into files.py
    summary.py            what a worker tells the driver of the rows it wrote
    state.py              what the tables hold of each publisher
    commit_log.py         the file that keeps that
    known_ids.py          message ids of what has no number
    interval_set.py       sets of whole numbers
    quantile_sketch.py    figures of many numbers that can be added up
    committer.py          the folder of tables, as the driver works on it
    damage.py             segments that cannot be read as a whole
    alerts.py             the pipeline's own agent, which tells of alarms
"""
