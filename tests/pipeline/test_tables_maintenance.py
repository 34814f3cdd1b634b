"""Files of tables are merged and removed while a pipeline runs; a snapshot of before stays readable."""

from __future__ import annotations

import datetime
import errno
import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import pzc
from pzc.pipeline.storage import Storage
from pzc.pipeline.tables.commit_log import ROLL_RECORDS, Commit, CommitLog, listed
from pzc.pipeline.tables.committer import ROWS, STAGE, Committer, claimed
from pzc.pipeline.tables.folders import SETTLED, Folders
from pzc.pipeline.tables.maintenance import KEPT, RETRY, Maintenance
from pzc.pipeline.tables.state import State
from pzc.pipeline.tables.summary import File
from pzc.pipeline.tables.work import Inline

from tests.pipeline.conftest import START, Sender
from tests.pipeline.following import Dying, Killed, Lab

NOW = START / 1000 + 10.0
DAY = 86_400.0


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Tables of six batches of two rows each: too few to be merged while more may come."""
    lab = Lab(tmp_path)
    sender = Sender("psu")
    for number in range(6):
        lab.record(sender.rows("v", [1.0, 2.0], 2 * number + 1))
        lab.run(max_files=1)
    return lab


@pytest.fixture
def committer(lab: Lab) -> Iterator[Committer]:
    with claimed(lab.tables) as root:
        made = Committer(root, Inline(), Storage())
        yield made
        made.close()


def numbers(tables: Any) -> list[int]:
    return sorted(tables["notifications"].to_table(["sequence"])["sequence"].to_pylist())


def test_small_files_become_one_and_no_row_is_lost(lab: Lab, committer: Committer) -> None:
    maintenance = Maintenance(committer, None, NOW)
    while maintenance.work(NOW + SETTLED):
        pass
    tables = pzc.tables(lab.tables)
    assert len(tables.files("notifications")) == 1
    assert numbers(tables) == list(range(1, 13))


def test_a_snapshot_of_before_is_readable_for_an_hour(lab: Lab, committer: Committer) -> None:
    before = pzc.tables(lab.tables)
    maintenance = Maintenance(committer, None, NOW)
    maintenance.work(NOW + SETTLED)
    maintenance.work(NOW + SETTLED + KEPT - 1)
    assert numbers(before) == list(range(1, 13))
    maintenance.work(NOW + SETTLED + KEPT)
    on_disk = {str(path) for path in (lab.tables / "notifications").rglob("*.parquet")}
    assert on_disk == set(pzc.tables(lab.tables).files("notifications"))


def test_files_that_were_taken_out_survive_a_start_and_go_an_hour_later(
    lab: Lab, committer: Committer
) -> None:
    before = pzc.tables(lab.tables)
    Maintenance(committer, None, NOW).work(NOW + SETTLED)
    committer.close()
    again = Committer(lab.tables, Inline(), Storage())
    assert numbers(before) == list(range(1, 13))
    Maintenance(again, None, NOW).work(NOW + SETTLED + KEPT)
    again.close()
    assert not any(Path(place).exists() for place in before.files("notifications"))
    assert numbers(pzc.tables(lab.tables)) == list(range(1, 13))


def test_a_log_that_has_begun_anew_still_knows_what_was_taken_out(lab: Lab, committer: Committer) -> None:
    before = pzc.tables(lab.tables)
    Maintenance(committer, None, NOW).work(NOW + SETTLED)
    for _ in range(ROLL_RECORDS):
        committer.commit(Commit(0))
    committer.close()
    again = Committer(lab.tables, Inline(), Storage())
    assert numbers(before) == list(range(1, 13))
    Maintenance(again, None, NOW).work(NOW + SETTLED + KEPT)
    again.close()
    assert not any(Path(place).exists() for place in before.files("notifications"))


class Full(Storage):
    """A disk without room for what is merged, until somebody makes some."""

    room = False

    def sync(self, path: Path) -> None:
        if not self.room and STAGE in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().sync(path)


def test_where_there_is_no_room_for_a_merge_nothing_is_left_of_it_and_it_is_tried_again(lab: Lab) -> None:
    full = Full()
    with claimed(lab.tables) as root, closing(Committer(root, Inline(), full)) as committer:
        maintenance, now = Maintenance(committer, None, NOW), NOW + SETTLED
        assert maintenance.work(now) == 0
        assert not [*committer.stage.rglob("*.parquet")]
        full.room = True
        assert maintenance.work(now + RETRY - 1) == 0
        assert maintenance.work(now + RETRY) > 0
    assert numbers(pzc.tables(lab.tables)) == list(range(1, 13))


def looked_after(lab: Lab, keep_days: int, now: float) -> list[int]:
    """What is left of the tables at a time."""
    with claimed(lab.tables) as root:
        committer = Committer(root, Inline(), Storage())
        Maintenance(committer, keep_days, now).work(now)
        committer.close()
    return numbers(pzc.tables(lab.tables))


def a_day_of(lab: Lab, days: int) -> None:
    """A row that is received so many days behind the first ones."""
    lab.record([Sender("psu", start=START + days * 86_400_000).row("v", 1.0, 100 + days)])
    lab.run()


def test_days_that_are_too_old_go_from_all_tables(lab: Lab) -> None:
    for days in (1, 2):
        a_day_of(lab, days)
    assert len(looked_after(lab, 2, NOW + 2 * DAY)) == 14
    assert looked_after(lab, 2, NOW + 3 * DAY) == [101, 102]
    files = pzc.tables(lab.tables).files
    first = datetime.datetime.fromtimestamp(NOW, datetime.UTC).date().isoformat()
    assert not [path for name in ROWS for path in files(name) if first in path]


def test_a_clock_far_ahead_leaves_as_many_days_as_are_kept(lab: Lab) -> None:
    assert len(looked_after(lab, 2, NOW + 4000 * DAY)) == 12
    for days in (1, 4000):
        a_day_of(lab, days)
    assert looked_after(lab, 2, NOW + 4009 * DAY) == [101, 4100]


def test_more_days_than_the_calendar_has_keep_all(lab: Lab, committer: Committer) -> None:
    Maintenance(committer, 10**12, NOW).work(NOW)
    assert len(numbers(pzc.tables(lab.tables))) == 12


class DyingBehindARecord(Storage):
    """Ends when a record is in the log."""

    def append(self, file: BinaryIO, content: bytes) -> None:
        super().append(file, content)
        raise Killed

    def cut(self, file: BinaryIO, size: int) -> None:
        """Whoever is killed cuts nothing."""


def test_a_snapshot_stays_readable_when_a_run_is_killed_behind_the_record_that_takes_files_out(
    lab: Lab,
) -> None:
    before = pzc.tables(lab.tables)
    for path in before.files("notifications"):
        os.utime(path, (NOW, NOW))
    killed = Committer(lab.tables, Inline(), DyingBehindARecord())
    with pytest.raises(Killed):
        Maintenance(killed, None, NOW).work(NOW + DAY)
    killed.close()
    again = Committer(lab.tables, Inline(), Storage())
    Maintenance(again, None, NOW + DAY).work(NOW + DAY)
    again.close()
    assert numbers(before) == list(range(1, 13))


def test_a_kill_at_any_step_loses_and_repeats_nothing(lab: Lab) -> None:
    steps, ended = 0, False
    while not ended:
        with claimed(lab.tables) as root, suppress(Killed):
            committer = Committer(root, Inline(), Dying(steps))
            try:
                Maintenance(committer, None, NOW).work(NOW + SETTLED)
                ended = True
            finally:
                committer.close()
        assert numbers(pzc.tables(lab.tables)) == list(range(1, 13))
        steps += 1
    assert len(pzc.tables(lab.tables).files("notifications")) == 1


def simulated(days: int, every: float) -> tuple[Folders, int, int]:
    """Files of batches that come so often, merged as they come; rows, and how often one was written again."""
    folders, written, rows = Folders([], 0.0), 0, 0
    batch = 0
    for number in range(round(days * DAY / every)):
        now = number * every
        day = datetime.date(1970, 1, 1) + datetime.timedelta(int(now // DAY))
        place = f"notifications/date={day}/agent=psu/{number:09d}.parquet"
        folders.add(File(place, 20, 4000, round(now * 1e6), round(now * 1e6)), now)
        rows += 20
        while (due := folders.due(now))[1]:
            batch, written = batch + 1, written + _merge(folders, due[1], batch)
    end = days * DAY + SETTLED
    while (due := folders.due(end))[1]:
        batch, written = batch + 1, written + _merge(folders, due[1], batch)
    return folders, rows, written


def _merge(folders: Folders, files: list[File], number: int) -> int:
    first, rows = files[0], sum(file.rows for file in files)
    place = f"{first.place.rpartition('/')[0]}/m{number:09d}.parquet"
    folders.replace(files, [File(place, rows, 200 * rows, first.first, files[-1].last)])
    return rows


def test_a_month_of_small_batches_ends_as_few_files_and_each_row_is_written_a_few_times() -> None:
    folders, rows, written = simulated(
        days=1, every=5.0
    )  # as each agent of each day: folders are independent
    left = folders.expired(366 * DAY, 0)
    assert sum(file.rows for file in left) == rows
    assert len(left) * 8 <= 100  # of 8 agents, for each day and table
    assert written / rows <= 6


def test_a_folder_is_looked_at_again_only_when_a_file_came_to_it() -> None:
    agents = range(300)
    places = [
        f"notifications/date=2026-01-01/agent=a{agent}/{n:09d}.parquet" for agent in agents for n in range(20)
    ]
    folders = Folders([File(place, 20, 4000, 0, 0) for place in places], NOW)
    began = time.thread_time()
    assert not folders.due(NOW + 1)[1]
    first, began = time.thread_time() - began, time.thread_time()
    assert not any(folders.due(NOW + 2 + look)[1] for look in range(10))
    assert time.thread_time() - began < first


def test_nothing_is_left_of_a_folder_whose_files_were_removed() -> None:
    files = [File(f"notifications/date=2026-01-0{day}/agent=a/1.parquet", 20, 4000, 0, 0) for day in (1, 2)]
    folders = Folders(files, NOW)
    folders.replace(files[:1], [])
    assert len(folders) == 1
    assert folders.due(NOW + 2 * SETTLED) == ("", [])


def test_a_file_that_cannot_be_read_is_left_and_others_are_merged(lab: Lab) -> None:
    sender = Sender("dmm")
    for number in range(2):
        lab.record(sender.rows("v", [1.0, 2.0], 2 * number + 1))
        lab.run(max_files=1)
    broken = next(lab.tables.glob("notifications/*/agent=psu/*"))
    whole = broken.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    broken.write_bytes(whole[: -8 - size] + b"\xff" * size + whole[-8:])
    with claimed(lab.tables) as root:
        committer = Committer(root, Inline(), Storage())
        Maintenance(committer, None, NOW).work(NOW + SETTLED)
        committer.close()
    names = [Path(name).parent.name for name in pzc.tables(lab.tables).files("notifications")]
    assert (names.count("agent=psu"), names.count("agent=dmm")) == (6, 1)


def test_the_files_of_a_month_are_listed_at_once(tmp_path: Path) -> None:
    places = [
        f"{table}/date=2026-01-{day:02d}/agent=a{agent}/0123abcd-{number:09d}.parquet"
        for table in ("notifications", "quarantine", "alarms")
        for day in range(1, 31)
        for agent in range(8)
        for number in range(4)
    ]
    CommitLog.create(
        tmp_path, State().encode(), [File(place, 1, 1, 0, 0) for place in places], Storage()
    ).close()
    listed(tmp_path)  # the first time modules are warmed up
    began = time.thread_time()
    found = listed(tmp_path)
    assert found is not None
    assert found.places == places
    assert time.thread_time() - began < 0.05
