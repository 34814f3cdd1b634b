"""Calls are recorded out of the audit logs of servers."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pzc import Agent, Protocol, Proxy, Server
from pzc.agents.server.audit_file import CALLS
from pzc.pipeline.recording.recorder import Recorder
from pzc.pipeline.schema import FRAMES, segments
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind
from pzc.protocol.keyring import Keyring

from tests.pipeline.publishers import await_


class Supply:
    def ramp(self, volts: float) -> float:
        return volts


def lines_of(directory: Path) -> list[dict[str, object]]:
    codec = Codec(Keyring.from_key("a key of the lab"))
    rows = [row for _, path in segments(directory) for row in pq.read_table(path).to_pylist()]
    opened = [codec.open([row[name] for name in FRAMES], kind=Kind.NOTIFICATION) for row in rows]
    return [each.decode() for each in opened if each.topic == CALLS]


@pytest.mark.parametrize("topic", ["*", "voltage"])
def test_calls_are_recorded_as_they_stand_in_the_audit_log(tmp_path: Path, topic: str) -> None:
    log, journal = tmp_path / "audit.jsonl", tmp_path / "journal"
    with Server(Supply(), audit=log, protocol=Protocol("a key of the lab")) as server:
        sources = [(server.rep_endpoint, topic)]
        with Recorder(
            journal, sources, calls=True, protocol=Protocol("a key of the lab"), max_age=0.1
        ) as recorder:
            with Proxy(server.rep_endpoint, protocol=Protocol("a key of the lab")) as supply:
                assert supply.ramp(5.0) == 5.0
            await_(lambda: any(line.get("member") == "ramp" for line in lines_of(journal)), "it is recorded")
            assert recorder.statistics()["missing"] == 0
    written = [json.loads(line) for line in log.read_text().splitlines()]
    called = [line for line in lines_of(journal) if line.get("member") == "ramp"]
    assert called == [line for line in written if line.get("member") == "ramp"]


def test_calls_are_not_recorded_beside_a_topic_unless_asked_for(tmp_path: Path) -> None:
    with Server(Supply(), audit=tmp_path / "audit.jsonl", protocol=Protocol("a key of the lab")) as server:
        with Recorder(
            tmp_path / "journal", [(server.rep_endpoint, "v")], protocol=Protocol("a key of the lab")
        ) as recorder:
            assert [each.topic for each in recorder.subscriptions] == ["v"]


def test_an_audit_line_that_no_mailbox_takes_is_in_the_file_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with (
        Server(Supply(), audit=log, protocol=Protocol("a key of the lab")) as server,
        Agent(protocol=Protocol("a key of the lab")) as listener,
        listener.subscribe(server.rep_endpoint, "pzc/calls"),
    ):
        server._publishing.publisher.closed = True  # as at the end of the server
        with Proxy(server.rep_endpoint, protocol=Protocol("a key of the lab")) as supply:
            supply.ramp(1.0)
        await_(lambda: '"ramp"' in log.read_text(), "it is in the file")
        await_(lambda: server.counters.as_dict().get("calls_unpublished"), "it is counted")
        server._publishing.publisher.closed = False
