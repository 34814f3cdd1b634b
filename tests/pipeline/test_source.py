"""``format("pzc")`` in a real Spark: streams, limits, triggers, batch queries, and what plans show."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from pzc import Agent, Protocol
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.schema import DECODED, JOURNAL, ddl
from pzc.pipeline.source import PzcDataSource, read_stream, register

from tests.contract.rigs.peers import KEY
from tests.pipeline.source_rig import PATIENCE, await_, is_read, waiting

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(240),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    return str(tmp_path / "key")


@pytest.fixture(autouse=True)
def _own_environment(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `register` passes on is for one test, and so are spools."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = dict(spark.sparkContext.environment)
    yield
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Stream into Parquet; every query is stopped at the end."""
    started: list[StreamingQuery] = []

    def start(rows: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        started.append((writer.trigger(**trigger) if trigger else writer).start())
        return started[-1]

    yield start
    for query in started:
        query.stop()


def sequences(spark, tmp_path: Path) -> list[int]:
    table = spark.read.parquet(str(tmp_path / "table"))
    return sorted(row[0] for row in table.select("sequence").collect())


def sizes(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


@pytest.mark.slow
def test_what_agents_publish_stands_verified_in_a_table(spark, start, publishers, key_file, tmp_path) -> None:
    hand = publishers.start()
    rows = read_stream(spark, [hand.ask("endpoint")], "q1", keyFile=key_file)
    assert rows.columns == JOURNAL.names
    query = start(rows.mapInArrow(make_decoder(KEY), ddl(DECODED)))
    await_(lambda: is_read(hand))
    hand.ask("publish", "voltage", 200)
    await_(lambda: sum(sizes(query)) == 200)
    table = spark.read.parquet(str(tmp_path / "table"))
    assert sequences(spark, tmp_path) == list(range(1, 201))
    assert table.where("error is null and value_double = sequence - 1").count() == 200


@pytest.mark.slow
def test_a_batch_has_no_more_rows_than_asked_for_and_available_now_ends_with_what_there_was(
    spark, start, publishers, key_file, tmp_path
) -> None:
    hand = publishers.start()
    options = {"keyFile": key_file, "maxRowsPerBatch": 300, "decode": True}
    rows = read_stream(spark, hand.ask("endpoint"), "q2", **options)
    assert rows.columns == DECODED.names
    start(rows, availableNow=True).awaitTermination(PATIENCE)
    hand.ask("publish", "voltage", 1000)
    query = start(rows, availableNow=True)
    assert query.awaitTermination(PATIENCE)
    assert sizes(query) == [300, 300, 300, 100]
    assert sequences(spark, tmp_path) == list(range(1, 1001))
    await_(lambda: waiting(hand) == 0)


@pytest.mark.slow
def test_what_was_lost_and_restarted_stands_in_the_progress_and_the_query_goes_on(
    spark, start, publishers, key_file, tmp_path
) -> None:
    hand = publishers.start()
    endpoint = hand.ask("endpoint")
    query = start(read_stream(spark, endpoint, "q4", keyFile=key_file))
    await_(lambda: is_read(hand))
    hand.ask("publish", "voltage", 10)
    await_(lambda: sum(sizes(query)) == 10)
    hand.kill()
    another = publishers.start(endpoint)
    await_(lambda: is_read(another))
    another.ask("publish", "voltage", 5)
    await_(lambda: sum(sizes(query)) == 15)
    assert sequences(spark, tmp_path) == sorted([*range(1, 11), *range(1, 6)])
    status = json.loads(query.recentProgress[-1].sources[0].latestOffset)["status"]
    assert status["missing"] == 0


@pytest.mark.slow
def test_a_query_with_another_key_than_its_publisher_ends_with_the_reason(
    spark, start, publishers, tmp_path
) -> None:
    (tmp_path / "other").write_text("another key of a lab")
    (tmp_path / "other").chmod(0o600)
    rows = read_stream(spark, publishers.start().ask("endpoint"), "q5", keyFile=tmp_path / "other")
    query = start(rows)
    with pytest.raises(StreamingQueryException, match="SignatureError"):
        query.awaitTermination(PATIENCE)


@pytest.mark.slow
def test_a_second_query_of_one_name_ends_the_first_with_the_reason(
    spark, start, publishers, key_file, tmp_path
) -> None:
    hand = publishers.start()
    rows = read_stream(spark, hand.ask("endpoint"), "q6", keyFile=key_file)
    first = start(rows)
    await_(lambda: is_read(hand))
    rows = read_stream(spark, hand.ask("endpoint"), "q6", keyFile=key_file, spool=tmp_path / "another")
    second = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "second")).start()
    try:
        with pytest.raises(StreamingQueryException, match="one process at a time"):
            first.awaitTermination(PATIENCE)
        assert second.isActive
    finally:
        second.stop()


@pytest.mark.slow
def test_a_checkpoint_of_another_mailbox_is_refused(spark, start, publishers, key_file) -> None:
    hand = publishers.start()
    start(
        read_stream(spark, hand.ask("endpoint"), "q7", keyFile=key_file), availableNow=True
    ).awaitTermination(PATIENCE)
    query = start(read_stream(spark, hand.ask("endpoint"), "q8", keyFile=key_file))
    await_(lambda: is_read(hand) or not query.isActive)
    with pytest.raises(StreamingQueryException, match="belongs to the mailbox 'q7'"):
        query.awaitTermination(PATIENCE)


def test_a_batch_query_shows_what_a_mailbox_holds_as_often_as_it_is_asked(
    spark, publishers, key_file
) -> None:
    hand = publishers.start()
    options = {"agents": hand.ask("endpoint"), "name": "q9", "keyFile": key_file, "decode": "true"}
    register(spark)
    assert spark.read.format("pzc").options(**options).load().count() == 0
    hand.ask("publish", "voltage", 40)
    rows = spark.read.format("pzc").options(**options).load()
    assert [rows.count(), rows.count()] == [40, 40]
    assert rows.selectExpr("sum(value_double)").first()[0] == sum(range(40))
    assert waiting(hand) == 40


def test_a_batch_query_without_a_name_waits_for_what_comes(spark, key_file) -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        done = threading.Event()

        def publish() -> None:
            while not done.wait(0.01):
                agent.publish("voltage", 1.0)

        writer = threading.Thread(target=publish, daemon=True)
        writer.start()
        register(spark)
        options = {"agents": agent.rep_endpoint, "keyFile": key_file, "wait": "2", "maxRowsPerBatch": "5"}
        count = spark.read.format("pzc").options(**options).load().count()
        done.set()
        writer.join(5.0)
    assert count == 5


@pytest.mark.slow
def test_the_key_of_this_process_reaches_those_that_spark_starts(
    spark, start, publishers, monkeypatch
) -> None:
    monkeypatch.setenv("PZC_KEY", KEY)
    hand = publishers.start()
    query = start(read_stream(spark, hand.ask("endpoint"), "q11", decode=True))
    await_(lambda: is_read(hand) or not query.isActive)
    hand.ask("publish", "voltage", 10)
    await_(lambda: sum(sizes(query)) == 10)


def test_no_secret_stands_in_a_plan(spark, key_file, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PZC_KEY", "hunter2, and long enough")
    read_stream(spark, "psu", "q10", keyFile=key_file).explain(extended=True)
    told = capsys.readouterr().out
    assert "pzc" in told
    assert "hunter2" not in told
    assert KEY not in told


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "agents"),
        ({"agents": "psu", "maxRows": "5"}, "did you mean"),
        ({"agents": "psu", "secret": "x"}, "keyFile"),
        ({"agents": "psu", "timeout": "soon"}, "timeout"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(spark, options: dict[str, str], reason: str) -> None:
    spark.dataSource.register(PzcDataSource)
    with pytest.raises(AnalysisException, match=reason):
        spark.readStream.format("pzc").options(**options).load()


def test_a_streaming_query_without_a_name_is_refused(spark, start) -> None:
    register(spark)
    with pytest.raises((AnalysisException, StreamingQueryException), match="name"):
        start(spark.readStream.format("pzc").option("agents", "psu").load()).awaitTermination(PATIENCE)
