"""What comes again from a publisher that was not told of its acknowledgement, and what never came."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pzc.agents.notifications.columns import Burst, Missed
from pzc.delivery.cursor import Gap
from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.recording.numbers import KEY, Numbers
from pzc.pipeline.recording.rows import Rows
from pzc.pipeline.schema import segments
from pzc.protocol.errors import JournalError
from pzc.protocol.link_messages import Row


def burst(
    *rows: int, topic: str = "v", epoch: int = 1, publisher: str = "psu", received: float = 1.0
) -> Burst:
    """Notifications of these numbers."""
    made = [Row(number, 1000, "", "msgpack", b"\x01", msgid=b"id") for number in rows]
    topics, headers = [topic] * len(rows), [b"PZC01"] * len(rows)
    return Burst(publisher, "psu", epoch, "", received, topics, headers, made, lambda: None)


def written(home: Path, *bursts: Burst) -> None:
    """Write these as one segment."""
    with Journal(home, recorder="r") as journal:
        for each in bursts:
            journal.extend(each)


def taken(journal: Journal, came: Burst) -> tuple[list[int], list[tuple[str, Gap]]]:
    """Numbers of what is new of it, and what was lost before."""
    new, lost = journal.numbers.fresh(came)
    assert len(new.topics) == len(new.headers) == len(new.rows)
    return [row.number for row in new.rows], list(lost)


def test_what_is_on_disk_is_left_out_when_it_comes_again(tmp_path: Path) -> None:
    written(tmp_path, burst(1, 2, 3), burst(1, 2, topic="w"))
    with Journal(tmp_path, recorder="r") as journal:
        assert taken(journal, burst(2, 3)) == ([], [])
        assert taken(journal, burst(3, 4, 5)) == ([4, 5], [])
        assert taken(journal, burst(3, topic="w")) == ([3], [])


def test_another_start_of_a_publisher_numbers_anew(tmp_path: Path) -> None:
    written(tmp_path, burst(1, 2, 3))
    with Journal(tmp_path, recorder="r") as journal:
        assert taken(journal, burst(1, 2, epoch=2)) == ([1, 2], [])
        assert taken(journal, burst(1, publisher="cam")) == ([1], [])


def test_what_was_lost_while_nobody_recorded_is_told_once(tmp_path: Path) -> None:
    written(tmp_path, burst(1, 2, 3))
    with Journal(tmp_path, recorder="r") as journal:
        assert taken(journal, burst(6, 7)) == ([6, 7], [("v", Gap(1, 4, 5))])
        assert taken(journal, burst(9)) == ([9], [])


@pytest.mark.parametrize("topic", ["v", "*"])
def test_what_a_publisher_has_told_of_is_not_found_once_more(tmp_path: Path, topic: str) -> None:
    written(tmp_path, burst(1, 2, 3))
    with Journal(tmp_path, recorder="r") as journal:
        journal.numbers.told(Missed("psu", topic, Gap(1, 4, 5), "evicted"))
        assert taken(journal, burst(6)) == ([6], [])


def test_numbers_of_segments_that_are_gone_stand_in_the_newest_one(tmp_path: Path) -> None:
    written(tmp_path, burst(1, 2, 3))
    written(tmp_path, burst(1, topic="w"))
    segments(tmp_path)[0][1].unlink()
    with Journal(tmp_path, recorder="r") as journal:
        assert taken(journal, burst(3, 4)) == ([4], [])


def test_the_lines_that_were_written_to_last_are_known() -> None:
    known = Numbers(most=2)
    footer: dict[bytes, bytes] = {}
    for came in (burst(1, topic="a"), burst(1, topic="b"), burst(2, topic="a"), burst(1, topic="c")):
        rows = Rows()
        rows.extend(came)
        footer = known.note(rows.table("r", 0)).schema.metadata
    again = Numbers(footer)
    assert [len(again.fresh(burst(1, topic=topic))[0].rows) for topic in "abc"] == [0, 1, 0]


def test_publishers_that_are_silent_for_an_hour_are_forgotten(tmp_path: Path) -> None:
    written(tmp_path, burst(1, publisher="before"))
    written(tmp_path, burst(1, publisher="psu"), burst(1, publisher="cam", received=3000.0))
    with Journal(tmp_path, recorder="r") as journal:
        assert taken(journal, burst(1, publisher="before")) == ([], [])
        assert taken(journal, burst(1)) == ([], [])
    written(tmp_path, burst(2, publisher="cam", received=4000.0))
    written(tmp_path, burst(3, publisher="cam", received=8000.0))
    with Journal(tmp_path, recorder="r") as journal:
        assert taken(journal, burst(1)) == ([1], [])
        assert taken(journal, burst(3, publisher="cam")) == ([], [])


def test_a_segment_whose_numbers_are_none_is_named(tmp_path: Path) -> None:
    written(tmp_path, burst(1))
    ((_, path),) = segments(tmp_path)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({KEY: b"{"}), path)
    with pytest.raises(JournalError, match="cannot be read"):
        Journal(tmp_path, recorder="r")
