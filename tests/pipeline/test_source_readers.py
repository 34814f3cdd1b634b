"""The readers, called as Spark calls them, without a JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pzc import Agent, Protocol
from pzc.pipeline.schema import DECODED, JOURNAL, ddl
from pzc.pipeline.source import PzcDataSource
from pzc.pipeline.source.readers import StreamReader
from pzc.protocol.errors import ConfigError

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY

NONE: Any = None
ALL = ReadAllAvailable()


@pytest.fixture
def publisher() -> Iterator[Agent]:
    with Agent(name="psu", protocol=Protocol(KEY)) as agent:
        yield agent


@pytest.fixture
def source(publisher: Agent, tmp_path: Path) -> PzcDataSource:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    options = {"agents": publisher.rep_endpoint, "name": "q", "keyFile": str(tmp_path / "key")}
    return PzcDataSource(CaseInsensitiveDict(options | {"maxRowsPerBatch": "40"}))


@pytest.fixture
def reader(source: PzcDataSource) -> Iterator[StreamReader]:
    made = source.streamReader(NONE)
    yield made
    made.stop()


def publish(agent: Agent, count: int) -> None:
    for number in range(count):
        agent.publish("voltage", number)


def numbers(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    worker: StreamReader = pickle.loads(pickle.dumps(reader))
    return [
        number for part in parts for batch in worker.read(part) for number in batch["sequence"].to_pylist()
    ]


def arrived(reader: StreamReader) -> int:
    told = reader.reportLatestOffset()
    return 0 if told is None else told["status"]["arrived"]


def kept(agent: Agent) -> int:
    return sum(each["waiting"] for each in agent.statistics()["mailboxes"])


def test_making_a_reader_opens_nothing(source: PzcDataSource, publisher: Agent) -> None:
    pickle.loads(pickle.dumps(source.streamReader(NONE)))
    assert publisher.statistics()["mailboxes"] == []


def test_a_query_reads_batch_after_batch_and_its_commits_free_the_mailbox(
    reader: StreamReader, publisher: Agent
) -> None:
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) is start
    publish(publisher, 60)
    wait_until(lambda: arrived(reader) == 60)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(40)
    first = reader.latestOffset(start, limit)
    assert numbers(reader, start, first) == list(range(1, 41))
    second = reader.latestOffset(first, limit)
    assert numbers(reader, first, second) == list(range(41, 61))
    assert kept(publisher) == 60
    reader.commit(first)
    wait_until(lambda: kept(publisher) == 20)
    assert numbers(reader, first, second) == list(range(41, 61))


def test_available_now_ends_with_what_there_was_and_acknowledges_all_of_it(
    reader: StreamReader, publisher: Agent
) -> None:
    start = reader.initialOffset()
    publish(publisher, 100)
    reader.prepareForTriggerAvailableNow()
    publish(publisher, 5)
    found: list[int] = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found += numbers(reader, start, end)
        start = end
    assert found == list(range(1, 101))
    wait_until(lambda: kept(publisher) == 5)


def test_a_stopped_query_goes_on_where_its_checkpoint_says(source: PzcDataSource, publisher: Agent) -> None:
    reader = source.streamReader(NONE)
    try:
        start = reader.initialOffset()
        publish(publisher, 30)
        reader.prepareForTriggerAvailableNow()
        end = reader.latestOffset(start, ReadMaxRows(10))
        planned = reader.latestOffset(end, ReadMaxRows(10))
    finally:
        reader.stop()
    again = source.streamReader(NONE)
    try:
        assert numbers(again, end, planned) == list(range(11, 21))
        wait_until(lambda: kept(publisher) == 20)
    finally:
        again.stop()


def test_progress_tells_where_the_rows_are_and_what_was_lost(reader: StreamReader) -> None:
    assert reader.reportLatestOffset() is None
    reader.initialOffset()
    told = reader.reportLatestOffset()
    assert told is not None
    assert told["endpoint"].startswith("tcp://127.0.0.1:")
    assert told["status"]["lost"] == told["status"]["restarts"] == 0


def test_a_batch_query_looks_and_leaves_everything(source: PzcDataSource, publisher: Agent) -> None:
    look = source.reader(NONE)
    assert list(look.read(InputPartition(0))) == []
    publish(publisher, 20)
    for _ in range(2):
        (batch,) = look.read(InputPartition(0))
        assert batch["sequence"].to_pylist() == list(range(1, 21))
    assert kept(publisher) == 20


def test_the_schema_is_that_of_a_journal_or_of_decoded_rows() -> None:
    plain, decoded = {"agents": "psu"}, {"agents": "psu", "decode": "true"}
    assert PzcDataSource(CaseInsensitiveDict(plain)).schema() == ddl(JOURNAL)
    assert PzcDataSource(CaseInsensitiveDict(decoded)).schema() == ddl(DECODED)


def test_a_checkpoint_of_another_name_is_refused_before_anything_is_read(reader: StreamReader) -> None:
    with pytest.raises(ConfigError, match="'other'"):
        reader.partitions({"mailbox": "other", "publishers": {}}, {"mailbox": "other", "publishers": {}})
