"""What comes out of the jobs: readings, monthly means, stored tables, a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from statsmodels.datasets import co2

from pzc.pipeline import schema
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.spark import jobs
from pzc.protocol.errors import JournalError

from tests.pipeline.conftest import damage_content, facts

pytestmark = [
    pytest.mark.java,
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

Record = Callable[..., Path]

# --- readings ---------------------------------------------------------------------------------------


def test_numbers_are_read_out_of_dictionaries(notifications, sender) -> None:
    rows = notifications(sender.rows("host", [{"cpu %": 1.5, "n": 2}, {"cpu %": None}, 7.0]))
    found = jobs.readings(rows, "host", {"cpu": "cpu %", "count": "n"})
    assert [(row.cpu, row["count"]) for row in found.collect()] == [(1.5, 2.0), (None, None), (None, None)]


def test_numbers_are_read_out_of_tuples(notifications, sender) -> None:
    rows = notifications(sender.rows("changed", [(1.5, None, None), (2.5, 1.5), ("off",), ()]))
    found = jobs.readings(rows, "changed", {"new": 0, "old": 1}).collect()
    assert [(row.new, row.old) for row in found] == [(1.5, None), (2.5, 1.5), (None, None), (None, None)]


# --- CO2 --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record_of_mauna_loa() -> pd.Series:
    return cast("Any", co2.load_pandas()).data["co2"]


def weekly(series: pd.Series, missing: float | None) -> list[dict[str, Any]]:
    return [
        {"date": f"{day:%Y-%m-%d}", "ppm": missing if np.isnan(ppm) else ppm} for day, ppm in series.items()
    ]


@pytest.mark.parametrize("missing", [None, float("nan")], ids=["None", "NaN"])
def test_monthly_means_equal_pandas_on_the_whole_record(
    notifications, sender, record_of_mauna_loa: pd.Series, missing: float | None
) -> None:
    rows = sender.rows("co2", weekly(record_of_mauna_loa, missing))
    found = jobs.monthly_means(notifications([*rows, *rows[100:200]])).toPandas()
    expected = record_of_mauna_loa.resample("MS").mean()
    got = pd.Series(found["mean"].to_numpy(dtype=float), pd.DatetimeIndex(found["month"]))
    assert list(got.index) == list(expected.index)
    assert list(got.isna()) == list(expected.isna())
    assert float((got - expected).abs().max()) < 1e-9


def test_a_month_of_missing_values_has_no_mean_and_counts_none(notifications, sender) -> None:
    contents = [
        {"date": "2000-01-01", "ppm": None},
        {"date": "2000-02-05", "ppm": 1.0},
        {"date": "2000-02-12", "ppm": 3},
    ]
    found = jobs.monthly_means(notifications(sender.rows("co2", contents)))
    assert [(str(row.month), row.mean, row["values"]) for row in found.collect()] == [
        ("2000-01-01", None, 0),
        ("2000-02-01", 2.0, 2),
    ]


def test_contents_without_a_date_are_left_out(notifications, sender) -> None:
    contents = [{"date": "someday", "ppm": 1.0}, {"ppm": 1.0}, 5.0, {"date": "2000-02-12", "ppm": 3.0}]
    found = jobs.dated_readings(notifications(sender.rows("co2", contents))).collect()
    assert [(str(row.time), row.value) for row in found] == [("2000-02-12 00:00:00", 3.0)]


# --- tables -----------------------------------------------------------------------------------------

DAY = 86_400_000


@pytest.fixture
def write(spark, record: Record, tmp_path: Path):
    """Run everything over the journal, with more rows in it if given, and store the tables."""

    def run(rows: list[Any] | None = None, key: str = "a key of the lab") -> Path:
        journal = record(rows) if rows is not None else tmp_path / "journal"
        tables = jobs.build_tables(jobs.read_journal(spark, journal), make_decoder(key))
        jobs.write_tables(tables, tmp_path / "tables")
        tables.release()
        return tmp_path / "tables"

    return run


def content_of(spark, directory: Path) -> dict[str, list[Any]]:
    names = ("notifications", "quarantine", "gaps", "statistics")
    return {name: sorted(map(str, jobs.read_table(spark, directory, name).collect())) for name in names}


@pytest.fixture
def some_rows(make_sender) -> list[Any]:
    rows = [
        *make_sender("psu").rows("v", range(5)),
        *make_sender("cam/1 %", start=1_700_000_000_000 + DAY).rows("v", range(5)),
    ]
    damage_content(rows[2].frames)
    return rows


def test_tables_come_back_with_their_schemas(spark, write, some_rows) -> None:
    directory = write(some_rows)
    partitions = ["date", "agent"]
    assert (
        jobs.read_table(spark, directory, "notifications").columns == schema.NOTIFICATIONS.names + partitions
    )
    assert jobs.read_table(spark, directory, "quarantine").columns == schema.QUARANTINE.names + partitions
    assert jobs.read_table(spark, directory, "gaps").columns == schema.GAPS.names
    assert jobs.read_table(spark, directory, "statistics").columns == schema.STATISTICS.names


def test_notifications_are_partitioned_by_day_then_agent(write, some_rows) -> None:
    directory = write(some_rows) / "notifications"
    found = sorted(str(path.relative_to(directory)) for path in directory.glob("date=*/agent=*"))
    assert found == ["date=2023-11-14/agent=psu", "date=2023-11-15/agent=cam%2F1 %25"]


@pytest.mark.slow
def test_a_second_run_gives_the_same_tables(spark, write, some_rows) -> None:
    first = content_of(spark, write(some_rows))
    assert len(first["notifications"]) == 9
    assert content_of(spark, write()) == first


@pytest.mark.slow
def test_rows_recorded_twice_do_not_change_the_tables(spark, write, some_rows) -> None:
    first = content_of(spark, write(some_rows))["notifications"]
    assert content_of(spark, write(some_rows))["notifications"] == first


@pytest.mark.slow
def test_a_run_with_the_right_key_empties_the_quarantine(spark, write, some_rows) -> None:
    assert len(content_of(spark, write(some_rows, key="wrong"))["quarantine"]) == 10
    assert [len(rows) for rows in content_of(spark, write()).values()] == [9, 1, 1, 2]


@pytest.mark.slow
def test_a_run_with_a_wrong_key_leaves_no_notification_behind(spark, write, some_rows) -> None:
    write(some_rows)
    assert content_of(spark, write(key="wrong"))["notifications"] == []


@pytest.mark.slow
def test_days_that_a_run_does_not_cover_stay(spark, write, make_sender, some_rows) -> None:
    directory = write(some_rows)
    for segment in (directory.parent / "journal").glob("*.parquet"):
        segment.unlink()
    write(make_sender("psu", start=1_700_000_000_000 + 2 * DAY).rows("v", range(3)))
    assert jobs.read_table(spark, directory, "notifications").count() == 9 + 3


@pytest.mark.slow
def test_agents_whose_names_look_like_numbers_keep_them(spark, write, make_sender) -> None:
    directory = write(make_sender("007").rows("v", [1.0]))
    assert facts(jobs.read_table(spark, directory, "notifications"), "agent") == ["007"]


@pytest.mark.slow
def test_an_agent_without_name_stands_under_its_id(spark, write, make_sender) -> None:
    sender = make_sender("x")
    directory = write([row._replace(name="") for row in sender.rows("v", [1.0])])
    assert facts(jobs.read_table(spark, directory, "notifications"), "agent") == [sender.agent_id]


def test_an_empty_journal_gives_empty_tables(spark, write) -> None:
    assert not any(content_of(spark, write([])).values())


def test_a_table_that_was_not_written_is_an_error(spark, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no table gaps"):
        jobs.read_table(spark, tmp_path, "gaps")


def test_a_stream_over_the_journal_is_verified_with_the_same_function(
    spark, record: Record, sender, tmp_path: Path
) -> None:
    rows = sender.rows("v", [0.5, 1.5])
    damage_content(rows[0].frames)
    journal = spark.readStream.schema(schema.ddl(schema.JOURNAL)).parquet(f"{record(rows)}/segment-*.parquet")
    stream = jobs.verify_and_decode(journal, make_decoder("a key of the lab")).writeStream.format("parquet")
    paths = {"checkpointLocation": str(tmp_path / "state"), "path": str(tmp_path / "out")}
    stream.options(**paths).trigger(availableNow=True).start().awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert facts(found, "value_double", "error") == [(1.5, None), (None, "SignatureError")]
