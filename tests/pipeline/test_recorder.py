"""The recorder with real agents: what is published is in the journal, and what is not is counted."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pzc import Agent, PeerLost, Protocol, drop
from pzc.pipeline.recording.recorder import Recorder
from pzc.pipeline.schema import FRAMES, segments
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind
from pzc.protocol.keyring import Keyring

from tests.pipeline.publishers import await_


@pytest.fixture
def instrument() -> Iterator[Agent]:
    with Agent(name="scope", protocol=Protocol("a key of the lab")) as agent:
        yield agent


def rows_of(directory: Path) -> list[dict[str, object]]:
    return [row for _, path in segments(directory) for row in pq.read_table(path).to_pylist()]


def test_every_notification_is_in_the_journal_in_order(tmp_path: Path, instrument: Agent) -> None:
    with Recorder(tmp_path, [instrument.rep_endpoint], protocol=Protocol("a key of the lab")) as recorder:
        for value in range(500):
            instrument.publish("level", value)
        assert recorder.drain()
    rows = rows_of(tmp_path)
    assert [row["sequence"] for row in rows] == list(range(1, 501))
    assert {(row["name"], row["topic"], row["publisher"]) for row in rows} == {
        ("scope", "level", instrument.agent_id)
    }


def test_a_recorded_signature_can_be_checked_again(tmp_path: Path, instrument: Agent) -> None:
    with Recorder(tmp_path, [instrument.rep_endpoint], protocol=Protocol("a key of the lab")) as recorder:
        instrument.publish("level", {"value": 1.5})
        assert recorder.drain()
    (row,) = rows_of(tmp_path)
    codec = Codec(Keyring.from_key("a key of the lab"))
    envelope = codec.open([row[name] for name in FRAMES], kind=Kind.NOTIFICATION)  # type: ignore[misc]
    assert envelope.decode() == {"value": 1.5}
    assert row["key_id"] == envelope.key_id


def test_a_large_content_becomes_a_blob(tmp_path: Path, instrument: Agent) -> None:
    with Recorder(tmp_path, [instrument.rep_endpoint], protocol=Protocol("a key of the lab")) as recorder:
        instrument.publish("frame", np.zeros(2_000_000, "u1"))
        assert recorder.drain()
    (row,) = rows_of(tmp_path)
    assert row["content"] == b""
    assert len(list((tmp_path / "blobs").rglob("[0-9a-f]*[0-9a-f]"))) >= 1


def test_what_fills_segment_after_segment_without_a_mailbox_is_recorded(
    tmp_path: Path, instrument: Agent
) -> None:
    options: dict[str, Any] = {"protocol": Protocol("a key of the lab"), "policy": drop(1000), "max_rows": 3}
    with Recorder(tmp_path, [instrument.rep_endpoint], **options) as recorder:
        assert instrument.wait_for_subscribers("level", 1, 10.0)
        for value in range(100):
            instrument.publish("level", value)
        assert recorder.drain()
        await_(lambda: recorder.statistics()["durable"] >= 99, "what fills segments is on disk")
    assert [row["sequence"] for row in rows_of(tmp_path)] == list(range(1, 101))


def test_several_agents_and_topics_are_recorded_together(tmp_path: Path, instrument: Agent) -> None:
    with Agent(name="second", protocol=Protocol("a key of the lab")) as second:
        publishers = [instrument.rep_endpoint, second.rep_endpoint]
        with Recorder(tmp_path, publishers, protocol=Protocol("a key of the lab")) as recorder:
            instrument.publish("a", 1)
            instrument.publish("b", 2)
            second.publish("a", 3)
            assert recorder.drain()
    assert {(row["name"], row["topic"]) for row in rows_of(tmp_path)} == {
        ("scope", "a"),
        ("scope", "b"),
        ("second", "a"),
    }


def test_a_publisher_that_cannot_be_reached_leaves_nothing_open(tmp_path: Path) -> None:
    with Agent(protocol=Protocol("a key of the lab")) as gone:
        endpoint = gone.rep_endpoint
    with pytest.raises(PeerLost, match="cannot be reached"):
        Recorder(tmp_path, [endpoint], protocol=Protocol("a key of the lab"))
    with Agent(protocol=Protocol("a key of the lab")) as present:
        Recorder(tmp_path, [present.rep_endpoint], protocol=Protocol("a key of the lab")).close()


def test_without_mailboxes_what_the_disk_refuses_is_counted_and_told_once(
    tmp_path: Path, instrument: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "journal"
    recorder = Recorder(
        home,
        [instrument.rep_endpoint],
        protocol=Protocol("a key of the lab"),
        policy=drop(100),
        max_bytes=1,
        max_pending=4000,
    )
    try:
        shutil.rmtree(home)
        home.write_text("a file where the journal was")
        for value in range(50):
            instrument.publish("level", value)
        recorder.drain()
        statistics = recorder.statistics()
        assert statistics["refused_by_journal"] > 0
        assert statistics["recorded"] + statistics["refused_by_journal"] == 50
        assert statistics["durable"] == 0
        assert caplog.text.count("could not be recorded") == 1
    finally:
        home.unlink()
        home.mkdir()
        recorder.close()
    assert len(rows_of(home)) == statistics["recorded"]


def test_the_end_waits_for_what_mailboxes_held_and_not_for_what_comes_later(
    tmp_path: Path, instrument: Agent
) -> None:
    stop = threading.Event()
    with Recorder(tmp_path, [instrument.rep_endpoint], protocol=Protocol("a key of the lab")) as recorder:
        numbers = [instrument.publish("level", value) for value in range(100)]
        ticks = iter(lambda: stop.wait(0.001), True)
        going_on = threading.Thread(target=lambda: [instrument.publish("more", 0) for _ in ticks])
        going_on.start()
        try:
            assert recorder.drain(30.0)
            rows = [row["sequence"] for row in rows_of(tmp_path) if row["topic"] == "level"]
        finally:
            stop.set()
            going_on.join()
    assert rows == numbers


def test_what_the_disk_does_not_take_is_told_with_its_publisher(tmp_path: Path, instrument: Agent) -> None:
    home = tmp_path / "journal"
    recorder = Recorder(home, [instrument.rep_endpoint], protocol=Protocol("a key of the lab"))
    try:
        shutil.rmtree(home)
        home.write_text("a file where the journal was")
        for value in range(3):
            instrument.publish("level", value)
        assert not recorder.drain(0.5)
        assert recorder.left == {instrument.rep_endpoint: 3}
    finally:
        home.unlink()
        home.mkdir()
        recorder.close()
