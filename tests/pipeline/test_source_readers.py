"""The readers, called as Spark calls them, without a JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pzc import Agent, Protocol
from pzc.pipeline.schema import DECODED, JOURNAL, ddl, segments
from pzc.pipeline.source import PzcDataSource
from pzc.pipeline.source.readers import StreamReader
from pzc.protocol.errors import ConfigError, JournalError, RowsMissing, SignatureError, SubscriptionClosed

from tests.contract.rigs.mailing import ReaderProcess
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY
from tests.pipeline.source_rig import Publishers, is_read

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
    options |= {"maxRowsPerBatch": "40", "spool": str(tmp_path / "spool"), "timeout": "10"}
    return PzcDataSource(CaseInsensitiveDict(options))


@contextmanager
def reading(source: PzcDataSource, **options: str) -> Iterator[StreamReader]:
    """A reader of a source with further options."""
    made = PzcDataSource(CaseInsensitiveDict({**source.options, **options})).streamReader(NONE)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def reader(source: PzcDataSource) -> Iterator[StreamReader]:
    with reading(source) as made:
        yield made


def publish(agent: Agent, count: int, topic: str = "voltage") -> None:
    for number in range(count):
        agent.publish(topic, number)


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    worker: StreamReader = pickle.loads(pickle.dumps(reader))
    return [row for part in parts for batch in worker.read(part) for row in batch.to_pylist()]


def rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [row["sequence"] for row in read(reader, start, end)]


def arrived(reader: StreamReader) -> int:
    """Rows that are on disk."""
    told = reader.reportLatestOffset()
    return 0 if told is None else told["rows"]


def kept(agent: Agent) -> int:
    return sum(each["waiting"] for each in agent.statistics()["mailboxes"])


def test_making_a_reader_opens_nothing(source: PzcDataSource, publisher: Agent) -> None:
    pickle.loads(pickle.dumps(source.streamReader(NONE)))
    assert publisher.statistics()["mailboxes"] == []


def test_a_query_reads_batch_after_batch_and_its_commits_empty_the_spool(
    reader: StreamReader, publisher: Agent, tmp_path: Path
) -> None:
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) is start
    publish(publisher, 30)
    wait_until(lambda: arrived(reader) == 30)
    publish(publisher, 30)
    wait_until(lambda: arrived(reader) == 60)
    before, limit = len(segments(tmp_path / "spool")), reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(40)
    first = reader.latestOffset(start, limit)
    assert rows(reader, start, first) == list(range(1, 41))
    second = reader.latestOffset(first, limit)
    assert rows(reader, first, second) == list(range(41, 61))
    reader.commit(second)
    assert len(segments(tmp_path / "spool")) == 1 < before
    assert reader.latestOffset(second, limit) is second


def test_a_query_without_rows_goes_on_with_its_first_ones(source: PzcDataSource, publisher: Agent) -> None:
    with reading(source) as reader:
        start = reader.initialOffset()
        assert rows(reader, start, start) == []
    with reading(source, onMissing="fail") as strict:
        publish(publisher, 3)
        strict.prepareForTriggerAvailableNow()
        assert rows(strict, start, strict.latestOffset(start, ALL)) == [1, 2, 3]


def test_a_new_checkpoint_begins_behind_what_another_one_has_committed(
    source: PzcDataSource, publisher: Agent
) -> None:
    with reading(source) as reader:
        start = reader.initialOffset()
        publish(publisher, 5)
        reader.prepareForTriggerAvailableNow()
        end = reader.latestOffset(start, ReadMaxRows(3))
        reader.commit(end)
    with reading(source) as another:
        begin = another.initialOffset()
        assert rows(another, begin, another.latestOffset(begin, ALL)) == [4, 5]


def test_what_is_on_disk_is_acknowledged_whether_it_was_committed_or_not(
    reader: StreamReader, publisher: Agent
) -> None:
    reader.initialOffset()
    publish(publisher, 60)
    wait_until(lambda: arrived(reader) == 60 and kept(publisher) == 0)


def test_available_now_ends_with_what_there_was(reader: StreamReader, publisher: Agent) -> None:
    start = reader.initialOffset()
    publish(publisher, 100)
    reader.prepareForTriggerAvailableNow()
    publish(publisher, 5)
    wait_until(lambda: arrived(reader) == 105)
    found: list[int] = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found += rows(reader, start, end)
        start = end
    assert found == list(range(1, 101))


def test_a_planned_range_is_the_same_rows_for_the_next_process(
    source: PzcDataSource, publisher: Agent
) -> None:
    with reading(source) as reader:
        start = reader.initialOffset()
        publish(publisher, 30)
        reader.prepareForTriggerAvailableNow()
        end = reader.latestOffset(start, ReadMaxRows(10))
        planned = reader.latestOffset(end, ReadMaxRows(10))
        first = read(reader, end, planned)
    with reading(source) as again:
        assert read(again, end, planned) == first
        assert [row["sequence"] for row in first] == list(range(11, 21))


def test_rows_are_shared_out_among_tasks(source: PzcDataSource, publisher: Agent) -> None:
    with reading(source, rowsPerPartition="30") as reader:
        start = reader.initialOffset()
        for topic in ("voltage", "current"):
            publish(publisher, 50, topic)
            reader.prepareForTriggerAvailableNow()
        parts = reader.partitions(start, reader.latestOffset(start, ALL))
        assert [sum(len(batch) for batch in reader.read(part)) for part in parts] == [30, 30, 30, 10]


def test_a_spool_is_read_by_one_process_at_a_time(source: PzcDataSource, reader: StreamReader) -> None:
    reader.initialOffset()
    other = PzcDataSource(CaseInsensitiveDict({**source.options, "timeout": "0.1"})).streamReader(NONE)
    with pytest.raises(JournalError, match="another process"):
        other.initialOffset()


@pytest.mark.parametrize("agents", ["psu", "ps*", ""])
def test_a_query_whose_mailboxes_another_one_reads_ends(
    source: PzcDataSource, publisher: Agent, agents: str
) -> None:
    with reading(source, agents=agents or publisher.rep_endpoint) as reader:
        start = reader.initialOffset()
        wait_until(lambda: bool(publisher.statistics()["mailboxes"]))
        with ReaderProcess(publisher.rep_endpoint, "q", "voltage") as other:
            other.wait_ready()
            wait_until(lambda: _ends(reader, start))


def _ends(reader: StreamReader, start: dict[str, Any]) -> bool:
    try:
        reader.latestOffset(start, ALL)
    except SubscriptionClosed as exc:
        return "one process at a time" in str(exc)
    return False


def test_progress_tells_where_the_rows_are_and_what_was_lost(reader: StreamReader) -> None:
    assert reader.reportLatestOffset() is None
    reader.initialOffset()
    told = reader.reportLatestOffset()
    assert told is not None
    assert (told["mailbox"], told["status"]["missing"], told["status"]["error"]) == ("q", 0, "")


def test_a_spool_that_is_gone_ends_a_query_or_is_told(
    source: PzcDataSource, publisher: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    offset = {"mailbox": "q", "spool": "spool-gone", "rows": 7}
    with reading(source, onMissing="fail") as strict:
        with pytest.raises(RowsMissing, match="spool-gone"):
            strict.latestOffset(offset, ALL)
    with reading(source) as reader:
        publish(publisher, 3)
        wait_until(lambda: reader.latestOffset(offset, ALL)["rows"] == 3)
        assert "is lost" in caplog.text


def test_rows_of_a_segment_that_is_gone_are_missing(reader: StreamReader, publisher: Agent) -> None:
    start = reader.initialOffset()
    publish(publisher, 3)
    wait_until(lambda: arrived(reader) == 3)
    (part,) = reader.partitions(start, reader.latestOffset(start, ALL))
    for piece in part.pieces:
        Path(piece.path).unlink()
    with pytest.raises(RowsMissing, match="every node"):
        list(reader.read(part))


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
        reader.partitions(*[{"mailbox": "other", "spool": "s", "rows": n} for n in (0, 1)])


@pytest.mark.parametrize(
    "offset",
    [{}, {"mailbox": "q"}, {"mailbox": "q", "publishers": {}}, {"mailbox": "q", "spool": "s", "rows": "1"}],
)
def test_what_is_no_offset_is_refused(reader: StreamReader, offset: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no offset"):
        reader.latestOffset(offset, ALL)


def test_another_key_than_the_publishers_is_an_error(source: PzcDataSource, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("another key of a lab")
    with pytest.raises(SignatureError):
        source.streamReader(NONE).initialOffset()


def test_rows_come_verified_and_decoded_when_that_is_wanted(source: PzcDataSource, publisher: Agent) -> None:
    with reading(source, decode="true") as reader:
        start = reader.initialOffset()
        publisher.publish("voltage", 3.3)
        reader.prepareForTriggerAvailableNow()
        (row,) = read(reader, start, reader.latestOffset(start, ALL))
        assert (row["value_double"], row["error"]) == (3.3, None)
        assert row["user"] is not None


def test_a_publisher_that_was_restarted_is_read_on(source: PzcDataSource, publishers: Publishers) -> None:
    hand = publishers.start()
    endpoint = hand.ask("endpoint")
    with reading(source, agents=endpoint) as reader:
        start = reader.initialOffset()
        hand.ask("publish", "voltage", 3)
        wait_until(lambda: arrived(reader) == 3)
        hand.kill()
        another = publishers.start(endpoint)
        wait_until(lambda: is_read(another))
        another.ask("publish", "voltage", 2)
        wait_until(lambda: arrived(reader) == 5)
        assert rows(reader, start, reader.latestOffset(start, ALL)) == [1, 2, 3, 1, 2]
