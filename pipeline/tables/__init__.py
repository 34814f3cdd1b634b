"""Tables: stored once, whatever happens, while a journal grows or agents publish. No Spark in here.

::

    run.py                tables that follow a journal, and days of them made anew
    follow.py             tables of what agents publish: a recorder and a run in one process
    batches.py            one batch of segments into the tables, exactly once
    committer.py          the folder of tables, as the one process that writes it works on it
    commit_log.py         which files the tables are made of; a log that is appended to
    state.py              what the tables hold of each publisher: the fold of the commit log
    again.py              rows of files: the state counted anew, staged files without copies
    small.py              tables of one file
    maintenance.py        merges and removes files; folders.py says which
    unread.py             which segments have rows that no batch has handled
    origins.py            what was handled when offsets count from elsewhere
    work.py               what a worker does with segments, from a task to a report
    apart.py              tasks whose process dies
    partition_writer.py   rows of one task: copies left out, judged, filed and counted; into files.py
    summary.py            reports: what a worker tells of the rows it wrote
    known_ids.py          message ids of what has no number
    interval_set.py       sets of whole numbers
    quantile_sketch.py    figures of many numbers that can be added up
    alerts.py             the pipeline's own agent, which tells of alarms
"""
