"""The journal and what makes tables of it: closed lines of section 3."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pzc.testing import Running, Timings, command

from tests.contract.findings.marks import finding

pq: Any = pytest.importorskip("pyarrow.parquet")

TIMEOUT = 20.0
ALONE = {"PZC_DISCOVERY_IP": "off", "PZC_PEERS": None, "PZC_REGISTRY": None}
LONG_AGO = 40 * 86_400.0


def a_journal(folder: Path, segments: int) -> Path:
    """Segments of ten rows each, of a recorder of that name."""
    from pzc.testing.journals import Recording, write_journal

    recording = Recording(published=10 * segments, agents=1, topics=("v",), restarts=0, lost=0.0,
                          repeated=0.0, damaged=0.0)  # fmt: skip
    write_journal(folder, recording, rows_per_segment=10, recorder="recorder")
    return folder


def offsets(journal: Path) -> list[int]:
    """Of all rows in the files of a journal, by file."""
    return [
        row for path in sorted(journal.glob("*.parquet")) for row in pq.read_table(path)["offset"].to_pylist()
    ]


def compacted(path: Path, rows: int) -> Path:
    """A segment under the name that it has when it stands for others."""
    first = int(path.stem.rpartition("-")[2])
    return path.rename(path.with_name(f"{path.stem}.to-{first + rows - 1:016d}.parquet"))


def recorded(journal: Path, until: Any, *options: str) -> None:
    """Let a recorder look after its journal until something holds."""

    def wait(running: Running) -> None:
        running.line()
        moment, end = threading.Event(), time.monotonic() + TIMEOUT
        while not until() and time.monotonic() < end:
            moment.wait(0.02)

    timings = Timings(upkeep_pause=0.05, covered_grace=0.0)
    with timings:
        environment = {**ALONE, "PZC_CONFIG": str(timings.write(journal.parent))}
        outcome = command("record", "nobody*", "--journal", str(journal), *options,
                          environment=environment, meanwhile=wait)  # fmt: skip
    assert outcome.status == 0, outcome.err


@finding("3.24")
def test_segments_that_were_compacted_become_one_when_their_day_is_over(tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "journal", 31)
    now = time.time()
    for path in sorted(journal.glob("*.parquet"))[:-1]:
        compacted(path, 10)
    for path in journal.glob("*.parquet"):
        os.utime(path, (now - LONG_AGO, now - LONG_AGO))
    recorded(journal, lambda: len(list(journal.glob("*.parquet"))) == 2, "--compact")
    assert [path.name for path in sorted(journal.glob("*.parquet"))] == [
        f"segment-recorder-{0:016d}.to-{299:016d}.parquet",
        f"segment-recorder-{300:016d}.parquet",
    ]
    assert offsets(journal) == list(range(310))


@finding("3.24")
def test_days_of_a_journal_stay_apart_and_each_can_be_removed_by_its_age(tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "journal", 21)
    noon = time.time() // 86_400 * 86_400 + 43_200.0
    for number, path in enumerate(sorted(journal.glob("*.parquet"))):
        written = noon - (10, 1, 1)[number // 10] * 86_400.0
        os.utime(path, (written, written))
    recorded(journal, lambda: len(list(journal.glob("*.parquet"))) == 3, "--compact")
    assert offsets(journal) == list(range(210))
    recorded(journal, lambda: len(list(journal.glob("*.parquet"))) == 2, "--compact", "--keep-days", "2")
    assert offsets(journal) == list(range(100, 210))


@finding("3.24")
def test_a_damaged_segment_does_not_stop_the_compaction_of_others(tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "journal", 9)
    paths, now = sorted(journal.glob("*.parquet")), time.time()
    paths[4].write_bytes(paths[4].read_bytes()[:-100])
    for path in paths:
        os.utime(path, (now - LONG_AGO, now - LONG_AGO))
    recorded(journal, lambda: len(list(journal.glob("*.parquet"))) == 4, "--compact")
    assert [path.name.partition(".to-")[0] for path in sorted(journal.glob("*.parquet"))] == [
        f"segment-recorder-{0:016d}",
        f"segment-recorder-{40:016d}.parquet",
        f"segment-recorder-{50:016d}",
        f"segment-recorder-{80:016d}.parquet",
    ]
