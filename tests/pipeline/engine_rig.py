"""What publishers publish, what recorders make of it, and what the tables then have to hold; no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pzc import Notification
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.tables.state import State
from pzc.pipeline.tables.summary import Report
from pzc.pipeline.tables.unread import Unread
from pzc.pipeline.tables.work import Inline, Task, Work
from pzc.protocol.frames import PZC00

from tests.contract.rigs import tables as tables_rig
from tests.pipeline.conftest import Sender, append, damaged

SECRET = "a key of the lab"


class Sent(NamedTuple):
    """A notification that some recorder writes down.

    Attributes:
        kind: ``signed``, ``old`` (PZC00, without a number), or ``broken`` (its signature does not fit).
        start: of its publisher, from 0.
        number: within that start.
    """

    kind: str
    start: int
    number: int

    @property
    def value(self) -> float:
        return self.start * 1000.0 + self.number


KINDS = ("signed", "signed", "signed", "old", "broken")
SENT = st.builds(Sent, st.sampled_from(KINDS), st.integers(0, 1), st.integers(1, 12))
SEGMENTS = st.lists(st.tuples(st.sampled_from("ab"), st.lists(SENT, min_size=1, max_size=6)), max_size=5)
"""Recorders, and what each of their segments holds, in order."""


class Field:
    """The same notification has the same frames whenever it is asked for."""

    def __init__(self) -> None:
        self._made: dict[Sent, Notification] = {}

    def row(self, sent: Sent) -> Notification:
        if sent not in self._made:
            options: dict[str, Any] = {"dialect": PZC00} if sent.kind == "old" else {}
            name = f"{sent.kind}{sent.start}" if sent.kind == "old" else f"psu{sent.kind == 'broken'}"
            start = 1_700_000_000_000 + 10_000 * (sent.start * 100 + sent.number)
            sender = Sender(name, SECRET, epoch=7 + sent.start, start=start, **options)
            row = sender.row("v", sent.value, sent.number)
            if sent.kind == "broken":
                row = damaged(row)
            self._made[sent] = row
        return self._made[sent]


def record(journal: Path, recorder: str, rows: Iterable[Notification]) -> Path:
    """Write rows as one segment, which comes behind those of before; its path."""
    before = set(journal.glob("segment-*")) if journal.is_dir() else set[Path]()
    with Journal(journal, recorder=recorder) as open_journal:
        for row in rows:
            append(open_journal, row)
    (path,) = set(journal.glob("segment-*")) - before
    return path


def stored(tables: Path, name: str, *columns: str) -> list[Any]:
    """Values of one column, or tuples of several, in order; of all files."""
    found = tables_rig.stored(tables, name, *columns)
    return sorted((row[0] if len(columns) == 1 else row for row in found), key=repr)


def worked(journal: Path, stage: Path, rules: Any = None) -> Report:
    """One task over all that is unread."""
    found = Unread(journal, settle=0.0).look(State(), 1000, 2e9)
    work = Work(make_decoder(SECRET, journal=journal), stage, "label", rules)
    (report,) = Inline().run(work, [Task(0, 1, tuple(each.path for each in found.segments), {})])
    return report
