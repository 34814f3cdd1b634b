"""What a run counts of each topic: values, rates, ages, and what is missing; no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pzc import Notification
from pzc.pipeline.snapshot import Tables

from tests.pipeline.conftest import damaged
from tests.pipeline.following import DAY, START, Lab

GAP = "epoch", "first_missing", "last_missing", "count"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def statistics(lab: Lab, rows: list[Notification]) -> dict[str, Any]:
    """The one row of the table, after these rows."""
    lab.record(rows)
    lab.run()
    (found,) = Tables(lab.tables)["statistics"].to_table().to_pylist()
    return found


def without(rows: list[Notification], *missing: int) -> list[Notification]:
    return [row for row in rows if row.sequence not in missing]


def test_values_are_counted_as_numpy_does(lab: Lab, sender: Any) -> None:
    values = [0.5, 2.25, -1.0, 7.0]
    found = statistics(lab, sender.rows("v", values))
    assert (found["count"], found["values"], found["min"], found["max"]) == (4, 4, -1.0, 7.0)
    assert (found["mean"], found["std"]) == pytest.approx((np.mean(values), np.std(values)))


def test_values_that_are_no_numbers_are_stored_and_not_averaged(lab: Lab, sender: Any) -> None:
    found = statistics(lab, sender.rows("v", [1.0, float("nan"), None, "off", 3.0]))
    assert (found["count"], found["values"], found["mean"]) == (5, 2, 2.0)
    stored = lab.rows("notifications", "sequence", "value_double")
    assert [str(value) for _, value in stored] == ["1.0", "nan", "None", "None", "3.0"]


def test_whole_numbers_are_values(lab: Lab, sender: Any) -> None:
    found = statistics(lab, sender.rows("v", [1, 2, 6]))
    assert (found["values"], found["mean"]) == (3, 3.0)


def test_the_rate_is_that_of_sending(lab: Lab, sender: Any) -> None:
    found = statistics(lab, sender.rows("v", range(11)))  # one in 10 ms
    assert found["rate_hz"] == pytest.approx(100.0)
    assert (found["last_sent"] - found["first_sent"]).total_seconds() == pytest.approx(0.1)


def test_one_notification_has_no_rate(lab: Lab, sender: Any) -> None:
    assert statistics(lab, sender.rows("v", [1.0]))["rate_hz"] is None


def test_ages_are_milliseconds_from_sent_to_received(lab: Lab, sender: Any) -> None:
    found = statistics(lab, [sender.row("v", 1.0, i, age=age) for i, age in enumerate((0.001, 0.002, 0.009))])
    assert [found[f"age_{name}_ms"] for name in ("min", "mean", "max")] == pytest.approx([1.0, 4.0, 9.0])


def test_the_age_that_one_in_a_hundred_exceeds_is_within_a_hundredth(lab: Lab, sender: Any) -> None:
    found = statistics(lab, [sender.row("v", 1.0, i, age=(i + 1) / 1000) for i in range(101)])
    assert found["age_p99_ms"] == pytest.approx(100.0, rel=0.0101)


def test_a_restart_is_no_gap_and_each_epoch_has_its_own(lab: Lab, make_sender: Any) -> None:
    before = without(make_sender(epoch=1).rows("v", range(10), first=100), 105)
    after = without(make_sender(epoch=2).rows("v", range(10)), 6, 7)
    found = statistics(lab, [*before, *after])
    assert lab.rows("gaps", *GAP) == [(1, 105, 105, 1), (2, 6, 7, 2)]
    assert (found["missing"], found["epochs"], found["count"]) == (3, 2, 17)


def test_rows_out_of_order_leave_no_gap(lab: Lab, sender: Any) -> None:
    assert statistics(lab, sender.rows("v", range(9))[::-1])["missing"] == 0
    assert lab.rows("gaps", "count") == []


def test_duplicates_and_gaps_do_not_cancel(lab: Lab, sender: Any) -> None:
    rows = sender.rows("v", range(6))
    found = statistics(lab, [*rows[:3], *rows[:3], rows[5]])
    assert (found["count"], found["missing"], found["duplicates"]) == (4, 2, 3)


def test_a_notification_in_quarantine_is_missing(lab: Lab, sender: Any) -> None:
    rows = sender.rows("v", range(5))
    rows[2] = damaged(rows[2])
    assert statistics(lab, rows)["missing"] == 1
    assert lab.rows("gaps", *GAP) == [(7, 2, 2, 1)]


def test_equal_numbers_of_two_epochs_topics_or_agents_are_no_duplicates(lab: Lab, make_sender: Any) -> None:
    lab.record(
        make_sender(name, epoch=epoch).row(topic, 1.0)
        for name, epoch, topic in [("psu", 1, "v"), ("psu", 2, "v"), ("psu", 1, "i"), ("load", 1, "v")]
    )
    (made,) = lab.run()
    assert (made.notifications, made.duplicates) == (4, 0)


def test_agents_whose_names_look_like_numbers_keep_them(lab: Lab, make_sender: Any) -> None:
    lab.record(make_sender("007").rows("v", [1.0]))
    lab.record(make_sender("12", start=START + DAY).rows("v", [1.0]))
    lab.run()
    assert lab.rows("notifications", "agent") == ["007", "12"]
    assert Tables(lab.tables).sql("SELECT agent FROM notifications ORDER BY 1").to_pylist() == [
        {"agent": "007"}, {"agent": "12"}
    ]  # fmt: skip


def test_a_journal_without_segments_makes_nothing(lab: Lab) -> None:
    lab.journal.mkdir()
    assert lab.run() == []
