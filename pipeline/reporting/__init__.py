"""Reporting: what stored tables say, as a page and for a terminal; knows no Spark.

::

    series.py    numbers over time, and arrays, out of stored tables
    report.py    one self-contained HTML page
    plots.py     figures as data URIs
    texts.py     tables and cells as text
"""
