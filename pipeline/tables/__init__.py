"""Tables: stored once, whatever happens, while a journal grows or agents publish.

::

    streaming.py   tables that follow a feed, by one streaming query
    feeds.py       what feeds them: a journal, or mailboxes
    batches.py     one batch of rows into the tables, exactly once
    rebuilding.py  days made anew, and what is stored counted anew
    filing.py      what Spark's Python workers run; with files.py and clerk.py
    summary.py     what a worker tells the driver of the rows it wrote
    ledger.py      what the tables hold of each publisher
    commit_log.py  the file that keeps that
    known_ids.py   message ids of what has no number
    ranges.py      ranges of whole numbers
    sketch.py      figures of many numbers that can be added up
    keeping.py     the folder of tables, as the driver works on it
    damage.py      segments that cannot be read as a whole
    announcing.py  the pipeline's own agent, which tells of alarms
"""
