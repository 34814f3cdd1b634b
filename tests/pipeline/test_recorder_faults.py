"""A recorder whose disk fails: publishers keep what it cannot write, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, Gap, LocalLimit, Protocol, mailbox
from pzc.agents.notifications.columns import Burst, Missed
from pzc.pipeline.recording.gaps import MAX_WAITING, GapLog, GapRow, read_gaps
from pzc.pipeline.recording.maintenance import Maintenance
from pzc.pipeline.recording.recorder import Recorder
from pzc.testing import ShiftedClock

from tests.agents.in_parts import InParts
from tests.contract.rigs.calling import run_in_fork
from tests.pipeline.publishers import await_
from tests.pipeline.recorder_rig import recorded
from tests.pipeline.scarcity import no_threads

OPTIONS: dict[str, Any] = {"max_age": 0.1, "retry": 0.05}


@pytest.fixture
def instrument() -> Iterator[Agent]:
    with Agent(name="scope", protocol=Protocol("a key of the lab")) as agent:
        yield agent


def recorder_of(instrument: Agent | InParts, home: Path, **options: Any) -> Recorder:
    return Recorder(
        home, [instrument.rep_endpoint], protocol=Protocol("a key of the lab"), **{**OPTIONS, **options}
    )


def kept(instrument: Agent | InParts) -> int:
    return sum(each["waiting"] for each in instrument.statistics()["mailboxes"])


def everything(instrument: Agent, count: int) -> dict[tuple[str, int, str], list[int]]:
    return {(instrument.agent_id, instrument.epoch, "t"): list(range(1, count + 1))}


def test_what_is_durable_is_acknowledged_and_nothing_else(tmp_path: Path, instrument: Agent) -> None:
    with recorder_of(instrument, tmp_path, max_age=3600.0) as recorder:
        for number in range(100):
            instrument.publish("t", number)
        await_(lambda: recorder.recorded == 100, "all are taken")
        assert kept(instrument) == 100
        recorder.journal.commit()
        await_(lambda: kept(instrument) == 0, "all are acknowledged")


def test_a_closed_recorder_leaves_what_comes_later_to_the_next_one(tmp_path: Path, instrument: Agent) -> None:
    with recorder_of(instrument, tmp_path):
        instrument.publish("t", 1)
    instrument.publish("t", 2)
    with recorder_of(instrument, tmp_path) as second:
        await_(lambda: second.recorded > 0 and kept(instrument) == 0, "the rest is recorded")
    assert recorded(tmp_path) == everything(instrument, 2)


def test_a_disk_that_refuses_keeps_messages_at_their_publisher(tmp_path: Path, instrument: Agent) -> None:
    home = tmp_path / "journal"
    with recorder_of(instrument, home, max_pending=40_000) as recorder:
        home.rename(tmp_path / "away")
        for number in range(2000):
            instrument.publish("t", number)
        await_(lambda: recorder.statistics()["paused"], "the recorder takes no more")
        await_(lambda: "cannot be written" in recorder.statistics()["error"], "it says why")
        assert instrument.statistics()["mailboxes"][0]["delivered"] == 0
        assert recorder.agent.statistics()["recorder"]["paused"]
        (tmp_path / "away").rename(home)
        await_(lambda: kept(instrument) == 0, "everything is acknowledged")
        assert recorder.statistics()["error"] == ""
    assert recorded(home) == everything(instrument, 2000)


def test_a_paused_recorder_holds_no_more_than_it_may(tmp_path: Path, instrument: Agent) -> None:
    home = tmp_path / "journal"
    with recorder_of(instrument, home, max_pending=8 << 20) as recorder:
        home.rename(tmp_path / "away")
        for _ in range(30):
            instrument.publish("t", os.urandom(1 << 20))
        await_(lambda: recorder.statistics()["paused"], "the recorder takes no more")
        threading.Event().wait(1.0)  # would it take more, it would have by now
        assert recorder.journal.pending_bytes <= 10 << 20
        (tmp_path / "away").rename(home)
        await_(lambda: kept(instrument) == 0, "everything is acknowledged")
    assert recorded(home) == everything(instrument, 30)


def test_a_directory_that_was_removed_is_missed_and_used_again(tmp_path: Path, instrument: Agent) -> None:
    home = tmp_path / "journal"
    with recorder_of(instrument, home) as recorder:
        shutil.rmtree(home)
        instrument.publish("t", 1)
        await_(lambda: recorder.statistics()["error"], "it says why")
        home.mkdir()
        await_(lambda: kept(instrument) == 0, "everything is acknowledged")
    assert recorded(home) == everything(instrument, 1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB of its own."""
    home = tmp_path / "disk"
    home.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(home)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: a full disk, because none can be mounted here: {mounted.stderr.strip()}")
    yield home
    subprocess.run(["umount", "-l", str(home)], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path, instrument: Agent) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(os.urandom(3 << 20))
    with recorder_of(instrument, small_disk / "journal") as recorder:
        for _ in range(20):
            instrument.publish("t", os.urandom(100_000))
        await_(lambda: "No space left" in recorder.statistics()["error"], "it says why")
        ballast.unlink()
        await_(lambda: kept(instrument) == 0, "everything is acknowledged")
    assert recorded(small_disk / "journal") == everything(instrument, 20)


def test_a_read_only_folder_loses_nothing(small_disk: Path, instrument: Agent) -> None:
    home = small_disk / "journal"

    def mount(*arguments: str) -> None:
        subprocess.run(["mount", *arguments], check=True)

    with recorder_of(instrument, home) as recorder:
        mount("--bind", str(home), str(home))  # the file system is busy, another view of it is not
        mount("-o", "remount,bind,ro", str(home))
        instrument.publish("t", 1)
        await_(lambda: "Read-only" in recorder.statistics()["error"], "it says why")
        subprocess.run(["umount", str(home)], check=True)
        await_(lambda: kept(instrument) == 0, "everything is acknowledged")
    assert recorded(home) == everything(instrument, 1)


@pytest.mark.needs("fork")
def test_a_forked_child_that_ends_leaves_the_journal_to_its_parent(tmp_path: Path, instrument: Agent) -> None:
    with recorder_of(instrument, tmp_path, max_age=3600.0) as recorder:
        instrument.publish("t", 1)
        await_(lambda: recorder.recorded == 1, "it is taken")
        before = sorted(tmp_path.iterdir())
        assert run_in_fork(recorder.close) == 0
        assert sorted(tmp_path.iterdir()) == before
    assert recorded(tmp_path) == everything(instrument, 1)


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_stops_no_recording(tmp_path: Path, instrument: Agent, step: float) -> None:
    with recorder_of(instrument, tmp_path):
        instrument.publish("t", 1)
        await_(lambda: kept(instrument) == 0, "the first is recorded")
        with ShiftedClock(step):
            instrument.publish("t", 2)
            await_(lambda: kept(instrument) == 0, "the second is recorded")
    assert recorded(tmp_path) == everything(instrument, 2)


def test_what_a_full_mailbox_gave_up_is_a_gap(tmp_path: Path, instrument: Agent) -> None:
    home = tmp_path / "journal"
    small = mailbox(max_messages=10, name="recorder")
    with recorder_of(instrument, home, policy=small, max_age=3600.0) as recorder:
        for number in range(30):
            instrument.publish("t", number)
        recorder.drain()
        await_(lambda: recorder.journal.commit() >= 0 and kept(instrument) == 0, "the rest is acknowledged")
        missing = recorder.statistics()["missing"]
    assert missing > 0
    (rows,) = recorded(home).values()
    assert len(rows) + missing >= 30
    gaps = read_gaps(home)
    assert {(gap.name, gap.topic, gap.reason) for gap in gaps} <= {
        ("scope", "t", "evicted"),
        ("", "t", "evicted"),
    }
    told = {number for gap in gaps for number in range(gap.first, gap.last + 1)}
    assert set(rows) | told == set(range(1, 31))


def test_a_mailbox_that_was_removed_is_a_gap(tmp_path: Path) -> None:
    with (
        InParts(Protocol("a key of the lab")) as instrument,
        recorder_of(instrument, tmp_path) as recorder,
    ):
        instrument.publish("t", 1)
        await_(lambda: kept(instrument) == 0, "the first is recorded")
        instrument.forget_silent_readers()
        instrument.publish("t", 2)
        await_(lambda: recorder.statistics()["missing"] == 1, "the loss is told")
    assert [(gap.first, gap.last, gap.reason) for gap in read_gaps(tmp_path)] == [(2, 2, "forgotten")]


def test_a_publisher_without_mailboxes_is_recorded_from_its_broadcasts(
    tmp_path: Path, instrument: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    instrument.advertise("t", policies=["drop"])
    sources = [(instrument.rep_endpoint, "t")]
    with Recorder(tmp_path, sources, protocol=Protocol("a key of the lab"), **OPTIONS) as recorder:
        instrument.publish("t", 1)
        assert recorder.drain()
    assert recorded(tmp_path) == everything(instrument, 1)
    assert "comes with drop: policy mailbox is not offered" in caplog.text


def test_an_agent_that_comes_later_is_recorded_too(tmp_path: Path) -> None:
    with Recorder(tmp_path, ["late*"], protocol=Protocol("a key of the lab"), **OPTIONS) as recorder:
        with Agent(name="late1", protocol=Protocol("a key of the lab")) as late:
            assert late.wait_for_subscribers("t", timeout=20.0)
            late.publish("t", 1)
            await_(lambda: recorder.recorded == 1, "it is recorded")
            assert late.statistics()["mailboxes"][0]["reader"] == "recorder"
    assert recorded(tmp_path) == everything(late, 1)


def test_a_start_of_a_publisher_is_told_as_what_it_is(
    tmp_path: Path, instrument: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    with recorder_of(instrument, tmp_path) as recorder:
        recorder.miss(Missed("b5", "*", Gap(7, 0, 0, restarted=True), "restarted"))
    (told,) = caplog.messages
    assert told == "b5 was started again: what it had published by then is not known"


# --- gaps --------------------------------------------------------------------------------------------------


def a_gap(first: int = 1, last: int = 1) -> GapRow:
    return GapRow(1.5, "a", "scope", 7, "t", first, last, last - first + 1, "evicted")


def test_gaps_come_back_as_they_were_told_and_once(tmp_path: Path) -> None:
    for _ in range(2):
        log = GapLog(tmp_path, "r")
        log.add(a_gap(1))
        log.add(a_gap(2, 5))
        log.write()
    assert read_gaps(tmp_path) == [a_gap(1), a_gap(2, 5)]


def test_half_a_line_of_a_killed_recorder_costs_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "_gaps-r.jsonl"
    path.write_text(json.dumps({"at": 1.0})[:-3])
    log = GapLog(tmp_path, "r")
    log.add(a_gap())
    log.write()
    assert read_gaps(tmp_path) == [a_gap()]


def test_of_more_gaps_than_may_wait_the_number_of_messages_is_told(tmp_path: Path) -> None:
    log = GapLog(tmp_path, "r")
    for number in range(1, MAX_WAITING + 3):
        log.add(a_gap(number, number))
    log.write()
    *told, last = read_gaps(tmp_path)
    assert (len(told), last.reason, last.count, log.count) == (MAX_WAITING, "unwritten", 2, MAX_WAITING + 2)


def test_gaps_that_cannot_be_written_wait(tmp_path: Path) -> None:
    home = tmp_path / "journal"
    log = GapLog(home, "r")
    log.add(a_gap())
    with pytest.raises(OSError, match="_gaps"):
        log.write()
    home.mkdir()
    log.write()
    assert read_gaps(home) == [a_gap()]


def test_a_recorder_goes_on_when_something_could_not_be_acknowledged(
    tmp_path: Path, instrument: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    def take_once(burst: Burst) -> None:
        done, recorder.take = burst.done, take

        def fails() -> None:
            done()
            raise MemoryError

        burst.done = fails
        take(burst)

    with recorder_of(instrument, tmp_path) as recorder:
        take, recorder.take = recorder.take, take_once
        for number in range(3):
            instrument.publish("t", number)
            await_(
                lambda number=number: kept(instrument) == 0 and recorder.recorded > number,
                "all are acknowledged",
            )
        assert "could not be acknowledged" in caplog.text
        caplog.clear()


def test_a_recorder_goes_on_when_there_was_no_memory_for_gaps(
    tmp_path: Path, instrument: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()

    def fails() -> None:
        recorder.gaps.write = write
        failed.set()
        raise MemoryError

    with recorder_of(instrument, tmp_path) as recorder:
        write, recorder.gaps.write = recorder.gaps.write, fails
        assert failed.wait(20.0)
        instrument.publish("t", 1)
        await_(lambda: recorder.recorded == 1 and kept(instrument) == 0, "it is acknowledged")
        caplog.clear()


def test_a_recorder_without_a_thread_lets_go_of_its_journal(tmp_path: Path, instrument: Agent) -> None:
    with no_threads(), pytest.raises(LocalLimit, match="ulimit -u"):
        recorder_of(instrument, tmp_path)
    recorder_of(instrument, tmp_path).close()


def test_maintenance_goes_on_behind_what_there_was_no_memory_for(tmp_path: Path) -> None:
    def clock() -> float:
        raise MemoryError

    assert Maintenance(tmp_path, "recorder", keep_seconds=1.0, clock=clock).step() is False
