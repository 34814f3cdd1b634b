"""Recording: notifications into a journal, durable before they are acknowledged, and out of it again.

::

    recorder.py  an agent that writes what others publish to a journal
    journal.py   rows of five frames, durable on disk before they are acknowledged
    backlog.py   what publishers keep for a recorder
    rows.py      what was taken and not written yet, as columns
    segments.py  files of a journal, each whole or absent
    gaps.py      what a recorder knows to be missing
    maintenance.py  small segments become large ones, the oldest go
    reading.py   segments, batch by batch
    inspecting.py  what is in a journal
    replay.py    a journal published again, at the recorded times
"""
