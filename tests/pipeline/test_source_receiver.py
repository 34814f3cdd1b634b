"""The process of a query that reads the mailboxes, and whoever asks it for rows; without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pzc import Agent, Protocol, Proxy
from pzc.pipeline.schema import DECODED, FRAMES, JOURNAL
from pzc.pipeline.source.offsets import Line, Offset
from pzc.pipeline.source.options import Options, read_options
from pzc.pipeline.source.readers import decoded, look, read_spans
from pzc.pipeline.source.receiver import Receiver
from pzc.protocol.errors import (
    ConfigError,
    MemberRefused,
    PzcError,
    RowsMissing,
    SignatureError,
    SubscriptionClosed,
)
from pzc.protocol.frames import Kind

from tests.contract.rigs.mailing import ReaderProcess
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT

START = Offset("q")


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    return str(tmp_path / "key")


@pytest.fixture
def publisher() -> Iterator[Agent]:
    with Agent(name="psu", protocol=Protocol(KEY)) as agent:
        yield agent


@pytest.fixture
def options(publisher: Agent, key_file: str) -> Options:
    return made(publisher.rep_endpoint, key_file)


def made(agents: str, key_file: str, **more: str) -> Options:
    return read_options({"agents": agents, "name": "q", "keyFile": key_file, **more}, streaming=True)


@contextmanager
def holding(options: Options, start: Offset = START) -> Iterator[Receiver]:
    receiver = Receiver(options)
    try:
        receiver.begin(start)
        yield receiver
    finally:
        receiver.close()


def publish(agent: Agent, count: int, topic: str = "voltage") -> None:
    for number in range(count):
        agent.publish(topic, number)


def rows(receiver: Receiver, start: Offset, end: Offset) -> list[dict[str, Any]]:
    parts = receiver.plan(start, end)
    batches = [batch for part in parts for batch in read_spans(receiver.options, receiver.endpoint, part)]
    return pa.Table.from_batches(batches, schema=JOURNAL).to_pylist()


def identical(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the one column that tells of the receiving process."""
    return [{name: value for name, value in row.items() if name != "received_at"} for row in found]


def kept(agent: Agent) -> int:
    return sum(each["waiting"] for each in agent.statistics()["mailboxes"])


def test_rows_are_those_of_a_journal_with_the_frames_as_they_were_signed(
    publisher: Agent, options: Options
) -> None:
    with holding(options) as receiver:
        publish(publisher, 3)
        assert receiver.settle(TIMEOUT)
        found = rows(receiver, START, receiver.latest(START, None))
    assert [row["sequence"] for row in found] == [1, 2, 3]
    assert {row["name"] for row in found} == {"psu"}
    envelopes = [
        Protocol(KEY).codec.open([row[name] for name in FRAMES], kind=Kind.NOTIFICATION) for row in found
    ]
    assert [each.sequence for each in envelopes] == [1, 2, 3]


def test_a_range_is_the_same_whoever_reads_it_and_how_often(publisher: Agent, options: Options) -> None:
    with holding(options) as receiver:
        publish(publisher, 50)
        publish(publisher, 50, "current")
        assert receiver.settle(TIMEOUT)
        middle = receiver.latest(START, 40)
        end = receiver.latest(middle, 40)
        receiver.release(middle)
        first, second = rows(receiver, middle, end), rows(receiver, middle, end)
        assert first == second
        assert len(first) == 40
        wait_until(lambda: kept(publisher) == 60)
    with holding(options, middle) as another:
        assert identical(rows(another, middle, end)) == identical(first)
        assert another.status()["lost"] == 0


def test_what_was_committed_and_not_acknowledged_is_not_given_to_spark_again(
    publisher: Agent, options: Options
) -> None:
    with holding(options) as receiver:
        publish(publisher, 20)
        assert receiver.settle(TIMEOUT)
        committed = receiver.latest(START, 15)
    with holding(options, committed) as another:
        wait_until(lambda: another.arrived >= 5 and kept(publisher) == 5)
        end = another.latest(committed, None)
        assert [row["sequence"] for row in rows(another, committed, end)] == [16, 17, 18, 19, 20]


def test_rows_are_shared_out_among_tasks(publisher: Agent, key_file: str) -> None:
    with holding(made(publisher.rep_endpoint, key_file, rowsPerPartition="30")) as receiver:
        publish(publisher, 50)
        publish(publisher, 50, "current")
        assert receiver.settle(TIMEOUT)
        parts = receiver.plan(START, receiver.latest(START, None))
        sizes = [
            sum(batch.num_rows for batch in read_spans(receiver.options, receiver.endpoint, part))
            for part in parts
        ]
    assert sizes == [30, 30, 30, 10]


def test_contents_larger_than_a_page_come_whole(publisher: Agent, options: Options) -> None:
    large = bytes(range(256)) * (10 << 12)
    with holding(options) as receiver:
        for _ in range(3):
            publisher.publish("image", large)
        assert receiver.settle(TIMEOUT)
        found = rows(receiver, START, receiver.latest(START, None))
    assert [large in row["content"] for row in found] == [True] * 3


def test_rows_come_verified_and_decoded_when_that_is_wanted(publisher: Agent, key_file: str) -> None:
    options = made(publisher.rep_endpoint, key_file, decode="true")
    with holding(options) as receiver:
        publisher.publish("voltage", 3.3)
        assert receiver.settle(TIMEOUT)
        (part,) = receiver.plan(START, receiver.latest(START, None))
        (batch,) = decoded(options, read_spans(options, receiver.endpoint, part))
    assert batch.schema.equals(DECODED)
    (row,) = batch.to_pylist()
    assert (row["value_double"], row["error"]) == (3.3, None)
    assert row["user"] is not None


def test_it_holds_no_more_than_the_mailbox_and_takes_more_when_some_was_released(
    publisher: Agent, key_file: str
) -> None:
    options = made(publisher.rep_endpoint, key_file, mailboxMessages="100", whenFull="block")
    with holding(options) as receiver:
        wait_until(lambda: bool(publisher.statistics()["mailboxes"]))
        writer = threading.Thread(target=publish, args=(publisher, 300), daemon=True)
        writer.start()
        wait_until(lambda: receiver.arrived == 100)
        start, found = START, 0
        while found < 300:
            end = receiver.latest(start, None, wait=TIMEOUT)
            assert receiver.status()["held"] <= 100
            found += len(rows(receiver, start, end))
            receiver.release(end)
            start = end
        writer.join(TIMEOUT)
        assert (receiver.arrived, receiver.status()["lost"]) == (300, 0)


def test_an_agent_that_comes_late_and_those_that_fit_a_pattern_are_read(key_file: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(Agent(name="cam1", protocol=Protocol(KEY)))
        receiver = stack.enter_context(holding(made("psu/voltage,cam*", key_file)))
        late = [stack.enter_context(Agent(name=name, protocol=Protocol(KEY))) for name in ("psu", "cam2")]
        for agent in (first, *late):
            wait_until(lambda agent=agent: bool(agent.statistics()["mailboxes"]))
            publish(agent, 2)
            publish(agent, 1, "image")
        wait_until(lambda: receiver.arrived == 8)
        found = rows(receiver, START, receiver.latest(START, None))
    counts = {(name, topic): 0 for name in ("cam1", "cam2", "psu") for topic in ("voltage", "image")}
    for row in found:
        counts[row["name"], row["topic"]] += 1
    assert counts == {
        ("cam1", "voltage"): 2, ("cam1", "image"): 1, ("cam2", "voltage"): 2, ("cam2", "image"): 1,
        ("psu", "voltage"): 2, ("psu", "image"): 0,
    }  # fmt: skip


def test_two_ways_to_name_one_agent_give_each_row_once(publisher: Agent, key_file: str) -> None:
    with holding(made(f"{publisher.rep_endpoint},psu,p*/voltage", key_file)) as receiver:
        wait_until(lambda: receiver.status()["subscriptions"] == 3)
        publish(publisher, 10)
        assert receiver.settle(TIMEOUT)
        end = receiver.latest(START, None)
        assert [row["sequence"] for row in rows(receiver, START, end)] == list(range(1, 11))
        receiver.release(end)
        wait_until(lambda: kept(publisher) == 0)


def test_a_publisher_that_was_restarted_is_read_on_and_counted(key_file: str) -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        endpoint = agent.rep_endpoint
        receiver = Receiver(made(endpoint, key_file))
        try:
            receiver.begin(START)
            publish(agent, 3)
            assert receiver.settle(TIMEOUT)
            agent.stop()
            with Agent(endpoint, protocol=Protocol(KEY)) as another:
                wait_until(lambda: bool(another.statistics()["mailboxes"]))
                publish(another, 2)
                wait_until(lambda: receiver.arrived == 5)
                found = rows(receiver, START, receiver.latest(START, None))
            assert sorted(row["sequence"] for row in found) == [1, 1, 2, 2, 3]
            assert receiver.status()["restarts"] == 1
        finally:
            receiver.close()


def test_planned_rows_that_nobody_has_any_more_are_counted(publisher: Agent, key_file: str) -> None:
    gone = Offset("q", {Line("nobody", 1, "voltage"): 7})
    with holding(made(publisher.rep_endpoint, key_file, timeout="0.2")) as receiver:
        assert rows(receiver, START, gone) == []
        assert receiver.status()["lost"] == 7


def test_planned_rows_that_nobody_has_any_more_end_the_query_if_that_is_wanted(
    publisher: Agent, key_file: str
) -> None:
    gone = Offset("q", {Line("nobody", 1, "voltage"): 7})
    with holding(made(publisher.rep_endpoint, key_file, timeout="0.2", onMissing="fail")) as receiver:
        with pytest.raises(RowsMissing, match="nobody"):
            receiver.plan(START, gone)


def test_a_query_whose_mailboxes_another_one_reads_ends(publisher: Agent, options: Options) -> None:
    with holding(options) as first, ReaderProcess(publisher.rep_endpoint, "q", "voltage") as other:
        other.wait_ready()
        wait_until(lambda: _raises(first, SubscriptionClosed))


def _raises(receiver: Receiver, error: type[PzcError]) -> bool:
    try:
        receiver.begin(START)
    except error as exc:
        return "one query at a time" in str(exc)
    return False


def test_another_key_than_the_publishers_is_an_error(publisher: Agent, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("another key of a lab")
    (tmp_path / "other").chmod(0o600)
    with pytest.raises(SignatureError):
        with holding(made(publisher.rep_endpoint, str(tmp_path / "other"))):
            pass


def test_rows_are_given_to_nobody_without_the_key(publisher: Agent, options: Options) -> None:
    with holding(options) as receiver:
        with pytest.raises(PzcError), asking(receiver, Protocol(serializer="msgpack")) as stranger:
            stranger.status()


@pytest.mark.parametrize(
    ("member", "arguments"),
    [
        ("page", ["rows"]),
        ("page", []),
        ("page", [[["p", 1, "t", 0]]]),
        ("page", [[["p", "one", "t", 0, 1]]]),
        ("release", [{}]),
        ("acknowledge", [{"mailbox": "q"}]),
    ],
)
def test_a_question_that_is_none_gets_an_error_and_the_next_one_an_answer(
    options: Options, member: str, arguments: list[Any]
) -> None:
    with holding(options) as receiver, asking(receiver, Protocol(KEY, "msgpack")) as worker:
        with pytest.raises((TypeError, ConfigError, MemberRefused)):
            getattr(worker, member)(*arguments)
        assert worker.status()["held"] == 0


def asking(receiver: Receiver, protocol: Protocol) -> Proxy:
    """As a worker asks."""
    return Proxy(receiver.endpoint, timeout=TIMEOUT, protocol=protocol)


def test_a_worker_that_asks_for_what_is_gone_gets_the_typed_error(publisher: Agent, options: Options) -> None:
    with holding(options) as receiver:
        publish(publisher, 3)
        assert receiver.settle(TIMEOUT)
        end = receiver.latest(START, None)
        (part,) = receiver.plan(START, end)
        receiver.release(end)
        with pytest.raises(RowsMissing, match="committed"):
            list(read_spans(options, receiver.endpoint, part))


def test_a_look_leaves_everything_where_it_is(publisher: Agent, options: Options) -> None:
    with holding(options) as receiver:
        publish(publisher, 5)
        assert receiver.settle(TIMEOUT)
    looks = [pa.Table.from_batches(look(options)).to_pylist() for _ in range(2)]
    assert [[row["sequence"] for row in found] for found in looks] == [[1, 2, 3, 4, 5]] * 2
    assert kept(publisher) == 5
