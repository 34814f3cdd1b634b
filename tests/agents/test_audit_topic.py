"""The lines of an audit log as a topic, whose readers must not hold up the log."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pzc import Agent, Protocol, Server, block
from pzc.agents.server.audit import CALLS
from pzc.agents.server.audit_topic import AuditTopic
from pzc.transport.counters import Counters

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied
from tests.contract.rigs.pairs import eventually


class Adding:
    def add(self, a: int, b: int) -> int:
        return a + b


def written(path: Path) -> int:
    """Calls in the file."""
    return sum(b"call_id" in line for line in path.read_bytes().splitlines())


def test_a_reader_that_lets_publications_wait_keeps_no_line_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with (
        Server(Adding(), protocol=Protocol(KEY), audit=str(path)) as server,
        Agent(protocol=Protocol(KEY)) as reader,
        proxied(server.rep_endpoint, protocol=Protocol(KEY)) as proxy,
    ):
        waits = reader.subscribe(server.rep_endpoint, CALLS, policy=block(10 * TIMEOUT, slots=1))
        for number in range(5):
            assert proxy.add(number, 1) == number + 1
            assert eventually(lambda expected=number + 1: written(path) >= expected)
        assert waits.received == 0


def test_readers_get_the_lines_of_the_file_in_order(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with (
        Server(Adding(), protocol=Protocol(KEY), audit=str(path)) as server,
        Agent(protocol=Protocol(KEY)) as reader,
        proxied(server.rep_endpoint, protocol=Protocol(KEY)) as proxy,
    ):
        subscription = reader.subscribe(server.rep_endpoint, CALLS)
        for number in range(5):
            proxy.add(number, 1)
        got: list[dict[str, Any]] = []
        while not got or got[-1].get("args") != [4, 1]:
            got.append(subscription.recv(TIMEOUT).content)
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        assert [line["at"] for line in lines[-len(got) :]] == [line["at"] for line in got]


def test_lines_for_which_there_is_no_room_are_counted(timings: Callable[..., None]) -> None:
    timings(audit_waiting=3)
    counters, begun, free = Counters(), threading.Event(), threading.Event()
    got: list[Any] = []

    def publish(topic: str, line: Any) -> None:
        begun.set()
        free.wait(TIMEOUT)
        got.append(line["n"])

    topic = AuditTopic(publish, counters)
    topic.tell([{"n": 0}])
    assert begun.wait(TIMEOUT)
    topic.tell({"n": number} for number in range(1, 10))
    assert counters["calls_unpublished"] == 6
    free.set()
    topic.close()
    assert eventually(lambda: got == [0, 1, 2, 3])
    topic.tell([{"n": 10}])
    assert counters["calls_unpublished"] == 7
