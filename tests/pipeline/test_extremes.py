"""Whatever a lab publishes, however many and however odd, a run ends well and its tables can be read; no Spark."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc import Notification
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.schema import LAST_TIME
from pzc.pipeline.snapshot import Tables
from pzc.pipeline.tables.partition_writer import PartitionWriter
from pzc.pipeline.tables.run import backfill
from pzc.pipeline.tables.summary import Report, parts_of
from pzc.testing import Timings

from tests.pipeline.conftest import START, Sender
from tests.pipeline.following import Lab
from tests.pipeline.test_decode import batch

LAST_MS = LAST_TIME // 1000


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def few_files() -> Iterator[Callable[[int], None]]:
    """Let this process have a number of files open at most."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda count: resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def read(lab: Lab, table: str) -> list[dict[str, Any]]:
    return Tables(lab.tables)[table].to_table().to_pylist()


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1.797e308, -1.797e308])
def test_a_window_of_readings_over_range_can_be_asked_for(lab: Lab, value: float) -> None:
    lab.record(Sender().rows("v", [value] * 3, 1))
    lab.run()
    (window,) = read(lab, "windows")
    assert (window["count"], window["min"], window["p50"], window["p99"]) == (3, value, value, value)


def test_a_window_that_would_end_behind_all_calendars_ends_with_them(lab: Lab) -> None:
    ahead = (LAST_MS - START) / 1000
    lab.record([Sender("late", start=LAST_MS - 20).row("v", 1.0, 1, age=-ahead)])
    lab.run()
    (window,) = read(lab, "windows")
    assert window["window_end"].year == 9999


def test_numbers_that_are_missing_may_be_more_than_a_column_holds(lab: Lab) -> None:
    for epoch in range(10):
        sender = Sender(epoch=epoch, start=START + 1000 * epoch)
        lab.record([sender.row("v", 1.0, 1), sender.row("v", 1.0, 10**18 - 1)])
    lab.run()
    (found,) = read(lab, "statistics")
    assert (found["count"], found["missing"]) == (20, 2**63 - 1)
    assert lab.run() == []


def test_a_batch_may_be_of_more_agents_than_a_process_has_files(
    lab: Lab, few_files: Callable[[int], None]
) -> None:
    count = 400
    lab.record([Sender(f"agent{number}").row("v", float(number), 1) for number in range(count)])
    few_files(330)
    lab.run()
    assert sorted(each["value_double"] for each in read(lab, "notifications")) == list(
        map(float, range(count))
    )


def test_counting_takes_no_longer_for_a_topic_when_there_are_many(lab: Lab) -> None:
    sender, count = Sender(), 6000
    lab.record([sender.row(f"t{number}", 1.0, 1) for number in range(count)])
    lab.run()
    table = Tables(lab.tables)["notifications"].to_table()

    def seconds(rows: int) -> float:
        part, began = table.slice(0, rows), time.process_time()
        assert len(parts_of(part)) == rows
        return time.process_time() - began

    assert min(seconds(count) for _ in range(3)) < 30 * min(seconds(count // 10) for _ in range(3))


@pytest.fixture
def long_texts() -> list[Notification]:
    """Eight of 1000 bytes each."""
    return Sender().rows("v", [str(number) * 1000 for number in range(8)], 1)


def test_rows_of_long_texts_are_decoded_some_at_a_time(long_texts: list[Notification]) -> None:
    decoder = make_decoder("a key of the lab")
    with Timings(stored_batch=2500):
        found = list(decoder([batch(long_texts)]))
    assert max(map(len, found)) <= 2
    assert [text[0] for each in found for text in each.column("value_string").to_pylist()] == list("01234567")


def counted(report: Report) -> int:
    """Notifications that a report tells of."""
    return sum(part.cell.count for part in report.parts)


def test_rows_of_long_texts_are_filed_before_they_are_many(long_texts: list[Notification]) -> None:
    writer = PartitionWriter(None, 0)
    for row in long_texts:
        with Timings(stored_batch=2500):
            writer.take(make_decoder("a key of the lab").decode(batch([row])))
    assert counted(writer.report) >= 6
    assert counted(writer.end()) == 8


def test_all_days_of_the_calendar_are_made_anew(lab: Lab) -> None:
    lab.record(Sender().rows("v", [1.0] * 3, 1))
    made, days = backfill(
        lab.journal, lab.tables, lab.settings(), lab.workers, datetime.date.min, datetime.date.max
    )
    assert (made.notifications, len(days)) == (3, 1)


def test_the_last_day_of_the_calendar_is_made_anew(lab: Lab) -> None:
    lab.record(Sender(start=LAST_MS - 20).rows("v", [1.0], 1))
    last = datetime.date.max
    made, days = backfill(lab.journal, lab.tables, lab.settings(), lab.workers, last, last)
    assert (made.notifications, days) == (1, (last,))
    assert [window["count"] for window in read(lab, "windows")] == [1]
