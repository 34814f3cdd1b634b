"""Spark: a session, what a cluster needs, and jobs from DataFrames to DataFrames.

::

    session.py   an embedded session with settings that suit one machine
    cluster.py   what a cluster needs before a job runs on it
    workers.py   Spark as what runs tasks
    jobs.py      deduplicate, gaps, statistics, tables of one pass over a journal
"""
