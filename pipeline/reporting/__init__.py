"""Reporting: what stored tables say, as a page and for a terminal; knows no Spark.

::

    stored.py    what a report says of stored tables
    series.py    numbers over time, and arrays, out of stored tables
    report.py    one self-contained HTML page
    plots.py     figures as data URIs
    texts.py     tables and cells as text
"""
