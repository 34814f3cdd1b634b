"""A session for one machine, and Spark as what runs tasks: the same tables as in one process, and failures in the words of this package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pzc.pipeline.snapshot import Tables
from pzc.pipeline.spark.workers import SparkWorkers, read_table
from pzc.pipeline.tables.summary import Report
from pzc.pipeline.tables.work import Task
from pzc.protocol.errors import JournalError
from pzc.testing.journals import Recording, write_journal

from tests.pipeline.following import Lab

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(180),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

COLUMNS = "publisher", "topic", "epoch", "sequence", "value_double", "date", "agent"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.sql.adaptive.enabled", "false"),
        ("spark.sql.catalogImplementation", "in-memory"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.ui.enabled", "false"),
    ],
)
def test_a_local_session_has_the_settings_for_one_machine(spark: Any, name: str, value: str) -> None:
    assert spark.conf.get(name) == value


def test_workers_run_this_interpreter(spark: Any) -> None:
    assert spark.sparkContext.parallelize([0]).map(lambda _: sys.executable).first() == sys.executable


def test_spark_makes_the_same_tables_as_one_process(spark: Any, tmp_path: Path) -> None:
    recording = Recording(published=3000, lost=0.01, repeated=0.05, damaged=0.01)
    truth = write_journal(tmp_path / "journal", recording, rows_per_segment=500)
    alone, shared = Lab(tmp_path), Lab(tmp_path, SparkWorkers(lambda: spark, alone=0))
    shared.tables = tmp_path / "shared"
    counts = [
        [
            (made.rows, made.notifications, made.quarantined, made.duplicates, made.missing)
            for made in lab.run()
        ]
        for lab in (alone, shared)
    ]
    assert counts[0] == counts[1]
    assert counts[0][0][:3] == (truth.rows, truth.notifications, truth.damaged)
    for name, columns in (("notifications", COLUMNS), ("gaps", ("topic", "first_missing", "last_missing"))):
        assert alone.rows(name, *columns) == shared.rows(name, *columns)
    files = Tables(shared.tables).files("notifications")
    assert {path.rpartition("-")[2] for path in files} > {"00000.parquet"}  # of several tasks


def test_spark_is_not_started_for_a_few_rows(tmp_path: Path) -> None:
    def refused() -> Any:
        raise AssertionError("Spark was asked for")

    write_journal(tmp_path / "journal", Recording(published=50))
    assert len(Lab(tmp_path, SparkWorkers(refused)).run()) == 1


def fails(task: Task) -> Report:
    raise JournalError(f"task {task.number} has a reason")


def test_what_a_worker_raises_is_told_in_one_line(spark: Any) -> None:
    workers = SparkWorkers(lambda: spark, alone=0)
    with pytest.raises(JournalError, match=r"^the pipeline has ended: JournalError: task 0 has a reason$"):
        workers.run(fails, [Task(0, 1, (), {})])


def test_a_collected_answer_that_is_cut_short_is_an_error() -> None:
    """Spark's own reader takes the end of a stream by a kill for an end like any other."""
    session = Mock()
    session.sparkContext._gateway.proc = None
    session.range().mapInArrow().collect.return_value = []
    workers = SparkWorkers(lambda: session, alone=0)
    with pytest.raises(JournalError, match=r"^the pipeline has ended: 0 of 1 tasks have reported$"):
        workers.run(fails, [Task(0, 1, (), {})])


def test_spark_reads_the_files_of_a_snapshot_and_no_others(spark: Any, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    write_journal(lab.journal, Recording(published=60, agents=1, lost=0.0, repeated=0.0, damaged=0.0))
    lab.run()
    tables = Tables(lab.tables)
    stranger = Path(tables.files("notifications")[0])
    stranger.with_name("ffffffff-000000000-00000.parquet").write_bytes(stranger.read_bytes())
    found = read_table(spark, tables, "notifications")
    assert found.count() == 60
    assert {"date", "agent"} <= set(found.columns)
    assert read_table(spark, tables, "alarms").count() == 0


def test_spark_reads_tables_in_a_folder_of_any_name(spark: Any, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "run [1] {a,b}* ?")
    write_journal(lab.journal, Recording(published=20, agents=1, lost=0.0, repeated=0.0, damaged=0.0))
    lab.run()
    assert read_table(spark, Tables(lab.tables), "notifications").count() == 20
