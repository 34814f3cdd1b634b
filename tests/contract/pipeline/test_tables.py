"""`pzc.tables`: stored tables as every reader finds them, without a JVM."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pzc
from pzc import ConfigError, JournalError

duckdb: Any = pytest.importorskip("duckdb")
polars: Any = pytest.importorskip("polars")
pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

MOMENT = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
NAMES = {"notifications", "quarantine", "alarms", "gaps", "statistics", "windows", "restarts", "damaged"}


def store(folder: Path, file: str, *numbers: int, agent: str = "psu") -> Path:
    """Notifications with these numbers as a file among the tables."""
    kinds = {"publisher": pa.string(), "name": pa.string(), "topic": pa.string(), "sequence": pa.int64(),
             "value_double": pa.float64(), "received_at": pa.timestamp("us", tz="UTC")}  # fmt: skip
    rows = [
        {"publisher": "p", "name": agent, "topic": "v", "sequence": number, "value_double": number / 2,
         "received_at": MOMENT + datetime.timedelta(seconds=number)}
        for number in numbers
    ]  # fmt: skip
    path = folder / "notifications" / "date=2026-01-01" / f"agent={agent}" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(kinds.items()))), path)
    return path


def numbers(tables: Any) -> list[int]:
    return sorted(tables["notifications"].to_table(["sequence"])["sequence"].to_pylist())


def test_a_table_without_files_has_its_columns_and_no_rows(tmp_path: Path) -> None:
    (tmp_path / "notifications").mkdir()
    tables = pzc.tables(tmp_path)
    assert set(tables) == NAMES
    for name, table in tables.items():
        assert table.count_rows() == 0, name
        times = [field for field in table.schema if pa.types.is_timestamp(field.type)]
        assert {str(field.type) for field in times} <= {"timestamp[us, tz=UTC]"}, name
        assert tables.sql(f"select * from {name}").schema.names == table.schema.names
    assert {"date", "agent", "value_double"} <= set(tables["notifications"].schema.names)


def test_a_notebook_shows_the_tables_with_their_columns(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", 1, 2)
    page = pytest.importorskip("IPython.core.formatters").HTMLFormatter()(pzc.tables(tmp_path))
    assert str(tmp_path) in page
    assert re.search("<td>notifications</td><td>1</td><td>[^<]*value_double", page)


def test_a_snapshot_stays_as_it_was_while_files_are_added(tmp_path: Path) -> None:
    store(tmp_path, "one.parquet", 1, 2)
    before = pzc.tables(tmp_path)
    store(tmp_path, "two.parquet", 3)
    assert numbers(before) == [1, 2]
    assert numbers(pzc.tables(tmp_path)) == [1, 2, 3]


def test_a_folder_without_tables_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="pzc pipeline run JOURNAL"):
        pzc.tables(tmp_path / "absent")


def test_a_file_that_is_damaged_is_told_by_name(tmp_path: Path) -> None:
    store(tmp_path, "one.parquet", 1).write_bytes(b"PAR1 spoilt")
    with pytest.raises((JournalError, pa.ArrowInvalid), match=r"one\.parquet"):
        pzc.tables(tmp_path)["notifications"].to_table()


@pytest.mark.parametrize(
    "spoil", [Path.unlink, lambda path: path.write_bytes(b"PAR1 spoilt")], ids=["lost", "bad"]
)
def test_a_query_names_the_file_that_it_could_not_read_and_says_what_to_do(
    tmp_path: Path, spoil: Any
) -> None:
    path = store(tmp_path, "one.parquet", 1)
    store(tmp_path, "two.parquet", 2)
    tables = pzc.tables(tmp_path)
    spoil(path)
    with pytest.raises(JournalError, match=r"one\.parquet cannot be read: .*pzc pipeline backfill"):
        tables.sql("select sum(sequence) from notifications")
    with pytest.raises(ConfigError, match="sequenze"):
        tables.sql("select sum(sequenze) from notifications")


@pytest.mark.allow_leaks("Polars keeps a pipe open")
def test_every_reader_finds_the_same_rows(tmp_path: Path) -> None:
    store(tmp_path, "one.parquet", 1, 2)
    store(tmp_path, "two.parquet", 3, agent="cam:1")
    tables = pzc.tables(tmp_path)
    files, columns = tables.files("notifications"), ["name", "sequence", "value_double"]
    expected = [("cam:1", 3, 1.5), ("psu", 1, 0.5), ("psu", 2, 1.0)]
    arrow = tables["notifications"].to_table(columns)
    assert sorted(arrow.to_pandas().itertuples(index=False, name=None)) == expected
    assert sorted(polars.scan_parquet(files).select(columns).collect().rows()) == expected
    assert (
        sorted(polars.scan_pyarrow_dataset(tables["notifications"]).select(columns).collect().rows())
        == expected
    )
    query = f"select name, sequence, value_double from read_parquet({files!r}) order by all"
    assert duckdb.sql(query).fetchall() == expected
    asked = tables.sql("select name, sequence, value_double from notifications order by all")
    assert [tuple(row.values()) for row in asked.to_pylist()] == expected


def test_a_minute_has_all_its_rows_whenever_they_were_stored(tmp_path: Path) -> None:
    store(tmp_path, "one.parquet", 1, 2)
    assert pzc.tables(tmp_path)["windows"].to_table(["count", "mean"]).to_pylist() == [
        {"count": 2, "mean": 0.75}
    ]
    store(tmp_path, "late.parquet", 0, 59, 60)
    found = pzc.tables(tmp_path).sql("select count, max, p50 from windows order by window_start")
    assert [tuple(row.values()) for row in found.to_pylist()] == [(4, 29.5, 0.75), (1, 30.0, 30.0)]


def test_sums_of_whole_numbers_are_whole(tmp_path: Path) -> None:
    store(tmp_path, "one.parquet", 1, 2)
    found = pzc.tables(tmp_path).sql("select sum(sequence) total from notifications")
    assert found.to_pylist() == [{"total": 3}]
    assert found.schema.types == [pa.int64()]


def test_times_are_utc_wherever_the_reader_is(tmp_path: Path) -> None:
    store(tmp_path, "one.parquet", 1)
    query = "select hour(received_at) h, received_at from notifications"
    asked = subprocess.run(
        [sys.executable, "-m", "pzc", "sql", query, "--tables", str(tmp_path), "--json"],
        env={**os.environ, "TZ": "Asia/Tokyo"}, capture_output=True, text=True, timeout=20.0, check=True,
    )  # fmt: skip
    assert json.loads(asked.stdout) == {"h": 12, "received_at": "2026-01-01T12:00:01+00:00"}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select value_duoble from notifications", "value_double"),
        ("select * from notificatons", "notifications"),
        ("selec 1", "syntax error"),
        ("select * from read_text('{folder}/secret')", "disabled"),
        ("copy (select 1) to '{folder}/made'", "disabled"),
        ("select * from query", "query"),
    ],
)
def test_what_a_query_cannot_have_is_one_line(tmp_path: Path, query: str, said: str) -> None:
    store(tmp_path, "one.parquet", 1)
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    with pytest.raises(ConfigError) as told:
        pzc.tables(tmp_path).sql(query.format(folder=tmp_path))
    assert said in str(told.value)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "made").exists()


def test_a_limit_and_a_statement_without_rows(tmp_path: Path) -> None:
    store(tmp_path, "one.parquet", *range(10))
    tables = pzc.tables(tmp_path)
    assert tables.sql("select * from notifications", 3).num_rows == 3
    assert tables.sql("set threads = 1").num_rows == 0
