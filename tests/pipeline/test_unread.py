"""Which segments of a journal are given to be read, and which are passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pzc.pipeline.schema import compacted_name
from pzc.pipeline.tables.interval_set import IntervalSet
from pzc.pipeline.tables.state import State
from pzc.pipeline.tables.summary import Damage
from pzc.pipeline.tables.unread import Found, Unread
from pzc.protocol.errors import JournalError

from tests.pipeline.engine_rig import Field, Sent, record

FIELD = Field()
LATER = 4e9


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def add(journal: Path, *numbers: int, recorder: str = "a") -> Path:
    return record(journal, recorder, [FIELD.row(Sent("signed", 0, n)) for n in numbers])


def look(unread: Unread, most: int = 100, now: float = LATER, **done: list[int]) -> Found:
    return unread.look(State(offsets={name: IntervalSet(runs) for name, runs in done.items()}), most, now)


def change(path: Path, content: bytes) -> None:
    """Write a file anew, at another time than it had."""
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        path.write_bytes(content)


def names(found: Found) -> list[str]:
    return [Path(each.path).name for each in found.segments]


def test_each_segment_is_given_once_and_the_earliest_first(journal: Path) -> None:
    late, early = add(journal, 5, 6), add(journal, 1, 2, recorder="b")
    unread = Unread(journal)
    assert names(look(unread, 1)) == [early.name]
    assert names(look(unread, 1)) == [late.name]
    assert names(look(unread)) == []
    more = add(journal, 7)
    assert names(look(unread)) == [more.name]


def test_what_is_handled_is_passed_over_without_a_look_at_its_bytes(journal: Path) -> None:
    first, second = add(journal, 1, 2), add(journal, 3)
    first.write_bytes(b"no Parquet")
    assert look(Unread(journal), a=[0, 1]).damaged == []
    assert names(look(Unread(journal), a=[0, 1])) == [second.name]
    assert names(look(Unread(journal), a=[0, 2])) == []


def test_a_segment_some_of_whose_rows_are_handled_is_given(journal: Path) -> None:
    path = add(journal, 1, 2, 3)
    assert names(look(Unread(journal), a=[0, 1])) == [path.name]


def test_a_compacted_segment_whose_parts_were_handled_is_passed_over(journal: Path) -> None:
    parts = [add(journal, 1, 2), add(journal, 3)]
    whole = pa.concat_tables([pq.read_table(path) for path in parts])
    unread = Unread(journal)
    assert len(look(unread).segments) == 2
    compacted = journal / compacted_name("a", 0, 2)
    pq.write_table(whole, compacted)
    assert names(look(unread, a=[0, 2])) == []
    assert names(look(Unread(journal))) == [compacted.name]


def test_a_segment_without_an_end_is_waited_for_and_then_damaged(journal: Path) -> None:
    path = add(journal, 1)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    os.utime(path, (1000.0, 1000.0))
    unread = Unread(journal, settle=5.0)
    young = look(unread, now=1004.0)
    assert (young.unsettled, young.damaged, young.segments) == (True, [], [])
    old = look(unread, now=1006.0)
    assert [(each.file, each.rows, each.read) for each in old.damaged] == [(path.name, None, 0)]
    path.write_bytes(content)
    assert names(look(unread)) == [path.name]


def test_nobody_waits_for_a_damaged_segment_whose_time_is_to_come(journal: Path) -> None:
    path = add(journal, 1)
    path.write_bytes(path.read_bytes()[:-100])
    os.utime(path, (9000.0, 9000.0))
    found = look(Unread(journal, settle=5.0), now=1000.0)
    assert (found.unsettled, [each.file for each in found.damaged]) == (False, [path.name])


def test_a_file_with_other_columns_is_damaged_and_other_names_are_nobodys_business(journal: Path) -> None:
    journal.mkdir()
    pq.write_table(pa.table({"x": [1]}), journal / "segment-a-0000000000000000.parquet")
    (journal / "notes.txt").write_text("notes")
    found = look(Unread(journal, settle=0.0))
    assert [(each.file, each.rows) for each in found.damaged] == [("segment-a-0000000000000000.parquet", 1)]
    assert "lacks header" in found.damaged[0].reason


def test_a_segment_of_a_newer_form_is_refused(journal: Path) -> None:
    path = add(journal, 1)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"pzc.journal": "9"}), path)
    with pytest.raises(JournalError, match="has form 9"):
        look(Unread(journal))


def test_a_journal_is_not_listed_again_while_some_of_it_waits(journal: Path) -> None:
    early, late = add(journal, 1), add(journal, 3)
    unread = Unread(journal)
    assert names(look(unread, 1)) == [early.name]
    earlier = add(journal, 2, recorder="b")
    assert names(look(unread, 1)) == [late.name]
    assert names(look(unread, 1)) == [earlier.name]


def test_a_damaged_segment_is_judged_again_once_when_its_time_is_to_come(journal: Path) -> None:
    path = add(journal, 1)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    unread = Unread(journal, settle=0.0)

    def judged() -> list[str]:
        found = unread.look(State(damaged=[Damage(path.name, None, 0, "torn", found=0)]), 100, LATER)
        return [*(each.file for each in found.damaged), *names(found)]

    assert judged() == [path.name]
    assert judged() == []
    change(path, content)
    assert judged() == [path.name]
    assert judged() == []


def test_a_copy_in_the_place_of_a_segment_that_was_given_and_was_damaged_is_given(journal: Path) -> None:
    path = add(journal, 1)
    unread = Unread(journal)
    assert names(look(unread)) == [path.name]
    damage = Damage(path.name, 1, 0, "damaged within", found=path.stat().st_ctime_ns // 1000)
    assert names(unread.look(State(damaged=[damage]), 100, LATER)) == []
    change(path, path.read_bytes())
    assert names(unread.look(State(damaged=[damage]), 100, LATER)) == [path.name]
