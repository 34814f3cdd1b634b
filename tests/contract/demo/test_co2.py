from __future__ import annotations

import csv
import datetime
import itertools
import threading
from pathlib import Path

import pytest
import statsmodels.datasets.co2.data as shipped

from examples.lab.co2 import Co2Analyser


@pytest.fixture(scope="module")
def analyser() -> Co2Analyser:
    return Co2Analyser()


@pytest.fixture(scope="module")
def shipped_rows() -> list[tuple[str, float | None]]:
    """The file inside statsmodels, read without pandas."""
    with Path(shipped.__file__).with_name("co2.csv").open(newline="") as file:
        return [
            (datetime.date.fromisoformat(row["date"]).isoformat(), float(row["co2"]) if row["co2"] else None)
            for row in csv.DictReader(file)
        ]


def test_the_record_equals_the_shipped_file_row_by_row(
    analyser: Co2Analyser, shipped_rows: list[tuple[str, float | None]]
) -> None:
    assert analyser.record() == shipped_rows


def test_the_record_begins_with_the_first_week_of_the_series(analyser: Co2Analyser) -> None:
    assert analyser.record()[0] == ("1958-03-29", 316.1)


def test_missing_weeks_stay_in_the_record_as_none(analyser: Co2Analyser) -> None:
    assert analyser.record()[6] == ("1958-05-10", None)


def test_every_week_follows_the_one_before_after_seven_days(analyser: Co2Analyser) -> None:
    dates = [datetime.date.fromisoformat(date) for date, _ in analyser.record()]
    assert {(later - earlier).days for earlier, later in itertools.pairwise(dates)} == {7}


def test_values_are_plain_floats_that_every_serializer_knows(analyser: Co2Analyser) -> None:
    assert {type(ppm) for _, ppm in analyser.record()} == {float, type(None)}


def test_changing_the_returned_record_leaves_the_analyser_as_it_was(analyser: Co2Analyser) -> None:
    analyser.record().clear()
    assert len(analyser.record()) == 2284


def test_run_publishes_every_week_once_in_order_and_ends(analyser: Co2Analyser) -> None:
    seen: list[tuple[str, object]] = []
    tally = analyser.run(lambda topic, content: seen.append((topic, content)), threading.Event(), 1e6)
    assert seen == [("co2", {"date": date, "ppm": ppm}) for date, ppm in analyser.record()]
    assert tally.published == len(seen)


def test_run_ends_after_count_weeks(analyser: Co2Analyser) -> None:
    seen: list[object] = []
    analyser.run(lambda topic, content: seen.append(content), threading.Event(), 1e6, count=2)
    assert seen == [{"date": "1958-03-29", "ppm": 316.1}, {"date": "1958-04-05", "ppm": 317.3}]


def test_a_count_beyond_the_record_ends_with_the_record(analyser: Co2Analyser) -> None:
    tally = analyser.run(lambda topic, content: None, threading.Event(), 1e6, count=10_000)
    assert tally.published == 2284
