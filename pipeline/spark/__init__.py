"""Spark: a session, what a cluster needs, and tasks that it runs.

::

    session.py   an embedded session with settings that suit one machine
    cluster.py   what a cluster needs before a job runs on it
    workers.py   Spark as what runs tasks, and a DataFrame of a table
"""
