"""Replay with real agents: the same names, topics, keys and contents, in time and once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, Notification, Protocol
from pzc.pipeline.recording.replay import Replay
from pzc.protocol.errors import JournalError

from tests.pipeline.conftest import damaged

Record = Callable[..., Path]


def heard(replay: Replay, name: str, count: int, stop: threading.Event | None = None) -> list[Notification]:
    """What an agent gets of a replay that runs while it listens."""
    with Agent(protocol=Protocol("a key of the lab")) as listener:
        with listener.subscribe(replay.agents[name].rep_endpoint, "*") as subscription:
            replay.run(stop or threading.Event())
            return [subscription.recv(20) for _ in range(count)]


def test_a_journal_is_published_again_under_its_names(record: Record, make_sender: Any) -> None:
    psu, cam = make_sender("psu"), make_sender("cam")
    journal = record([psu.row("v", 1.5, 1, key="left"), cam.row("f", {"i": 0}, 1), psu.row("w", [1, "x"], 1)])
    with Replay(journal, speed=None, protocol=Protocol("a key of the lab")) as replay:
        found = heard(replay, "psu", 2)
    assert [(n.name, n.topic, n.key, n.content) for n in found] == [
        ("psu", "v", "left", 1.5),
        ("psu", "w", "", [1, "x"]),
    ]
    assert (replay.counts.published, replay.counts.refused) == (3, 0)


def test_rows_of_two_recorders_are_published_once_and_in_order(record: Record, make_sender: Any) -> None:
    rows = make_sender("psu").rows("v", range(6), 1)
    record(rows[:4], "one")
    journal = record(rows[2:], "two")
    with Replay(journal, speed=None, protocol=Protocol("a key of the lab")) as replay:
        found = heard(replay, "psu", 6)
    assert [n.content for n in found] == [0, 1, 2, 3, 4, 5]
    assert replay.counts.repeated == 2


def test_what_does_not_verify_is_not_published(record: Record, sender: Any) -> None:
    rows = sender.rows("v", range(3), 1)
    rows[1] = damaged(rows[1])
    with Replay(record(rows), speed=None, protocol=Protocol("a key of the lab")) as replay:
        counts = replay.run(threading.Event())
    assert (counts.published, counts.refused) == (2, 1)


def test_a_wrong_key_is_said_once_whoever_published(
    record: Record, make_sender: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [row for name in ("psu", "cam") for row in make_sender(name).rows("v", range(3), 1)]
    with Replay(record(rows), speed=None, protocol=Protocol("another key of the lab")) as replay:
        assert replay.run(threading.Event()).refused == 6
    assert caplog.text.count("keys differ") == 1


def test_a_damaged_segment_is_said_and_the_others_are_published(
    record: Record, sender: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rows = sender.rows("v", range(6), 1)
    for start in (0, 2, 4):
        journal = record(rows[start : start + 2])
    damaged = sorted(journal.glob("segment-*"))[1]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with Replay(journal, speed=None, protocol=Protocol("a key of the lab")) as replay:
        assert replay.run(threading.Event()).published == 4
    assert caplog.text.count(damaged.name) == 1


class Times(threading.Event):
    """An event that notes for how long it is waited, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


def test_recorded_times_are_divided_by_the_speed(record: Record, make_sender: Any) -> None:
    sender = make_sender("psu")
    rows = [sender.row("v", 0, 1)]
    sender.now += 99_990
    rows.append(sender.row("v", 1, 2))
    times = Times()
    with Replay(record(rows), speed=0.1, protocol=Protocol("a key of the lab")) as replay:
        replay.run(times)
    assert times.waits[0] == 0.0
    assert 900 < times.waits[1] <= 1000


def test_a_clock_that_was_wrong_is_not_waited_for(
    record: Record, make_sender: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sender = make_sender("psu")
    rows = [sender.row("v", 0, 1)]
    for number, step in enumerate((200_000_000_000_000, 5_000, -200_000_000_000_000, 5_000), 2):
        sender.now += step - 10
        rows.append(sender.row("v", 0, number))
    times = Times()
    with Replay(record(rows), speed=0.001, protocol=Protocol("a key of the lab")) as replay:
        assert replay.run(times).published == 5
    assert [round(wait, -2) for wait in times.waits] == [0, 0, 5000, 0, 5000]
    assert caplog.text.count("leap by") == 1


def test_a_replay_that_is_stopped_publishes_no_more(record: Record, sender: Any) -> None:
    stop = threading.Event()
    stop.set()
    with Replay(record(sender.rows("v", range(3))), protocol=Protocol("a key of the lab")) as replay:
        assert replay.run(stop).published == 0


def test_a_journal_without_rows_cannot_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="nothing is recorded"):
        Replay(tmp_path)
