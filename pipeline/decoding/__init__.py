"""Decoding: journal rows verified and decoded by workers.

::

    decode.py    every row: content fetched, signature, safe decoder, columns
    values.py    contents as columns
    arrays.py    arrays that contents hold, by their paths
    watchdog.py  a bound of time for a row
    bounds.py    what a row may hold
    columns.py   rows of one shape together, as columns
"""
