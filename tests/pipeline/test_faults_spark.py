"""Whatever happens to a pipeline, what is in the journal gets into the tables once, and what is lost is a row.

``PIPELINE_MOMENTS=50`` with ``-o faulthandler_timeout=7200`` lets 50 things happen instead of a few.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from pzc.pipeline.schema import segments
from pzc.testing.journals import Recording, Truth, write_journal

from benchmarks.pipeline_cluster import expected, found, run_pipeline, stored
from benchmarks.spark_cluster import Cluster
from tests.pipeline.faults_pipeline import SEGMENTS_PER_MOMENT, Feed, Ordeal, Running

logger = logging.getLogger("tests.faults")

MOMENTS = int(os.environ.get("PIPELINE_MOMENTS", "3"))
SEED = int(os.environ.get("PIPELINE_SEED", "1"))

pytestmark = [
    pytest.mark.java,
    pytest.mark.once,
    pytest.mark.timeout(max(280, 120 * MOMENTS)),
]

ROWS = 100
SEGMENTS = 4 + SEGMENTS_PER_MOMENT * MOMENTS
ROTATED = ("old", "new")
SHAKEN = Recording(
    published=ROWS * SEGMENTS,
    agents=3,
    lost=0.01,
    repeated=0.02,
    damaged=0.01,
    secrets=ROTATED,
    clock_step=-3600.0,
)
"""Keys are rotated, and all clocks are set back by an hour, in the middle."""

IDENTITY = "publisher", "topic", "sequence"
Identity = tuple[Any, ...]

KEYRING = 'active = "new"\n[keys.old]\nsecret = "old"\n[keys.new]\nsecret = "new"\n'


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all pipelines of a test have both keys."""
    (tmp_path / "keys.toml").write_text(KEYRING, encoding="utf-8")
    monkeypatch.setenv("PZC_KEYRING", str(tmp_path / "keys.toml"))


def run_once(folder: Path, master: str = "local[1]", **environ: str) -> None:
    """Bring the tables of a folder up to date; the command must succeed."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        run_pipeline(folder / "journal", folder / "tables", master, secret=None)


def wrong_values(tables: Path) -> int:
    """Notifications that are not what was published, or are there twice."""
    columns = "publisher", "epoch", "topic", "sequence", "value_double"
    rows = stored(tables, "notifications", *columns)
    return len(rows) - len({row[:4] for row in rows}) + sum(value != number / 2 for *_, number, value in rows)


def starter(folder: Path, master: str = "local[1]") -> Callable[[], Running]:
    """Starts a pipeline of a folder."""

    def start() -> Running:
        return Running(
            folder / "log",
            str(folder / "journal"),
            str(folder / "tables"),
            "--every",
            "0.5",
            "--master",
            master,
        )

    return start


@pytest.fixture
def made(tmp_path: Path) -> Truth:
    return write_journal(tmp_path / "made", SHAKEN, rows_per_segment=ROWS)


@pytest.mark.usefixtures("keys")
def test_whenever_its_processes_are_killed_everything_is_in_the_tables_once(
    tmp_path: Path, made: Truth
) -> None:
    feed = Feed(tmp_path / "made", tmp_path / "journal")
    ordeal = Ordeal(starter(tmp_path), feed, tmp_path / "tables", Random(SEED))
    try:
        ordeal.go_through(MOMENTS)
    finally:
        logger.info("what happened: %s", ordeal.struck)
        ordeal.close()
    run_once(tmp_path)
    assert ordeal.struck
    assert found(tmp_path / "tables") == expected(made)
    assert not wrong_values(tmp_path / "tables")


class OnCluster(Ordeal):
    """A pipeline on a cluster, whose workers are killed."""

    cluster: Cluster

    def _strike_executor(self) -> bool:
        """``kill -9`` of one executor; the cluster starts another one."""
        machines = [process for worker in self.cluster.workers for process in worker.executors()]
        if machines:
            self.dice.choice(machines).kill()
        return bool(machines)

    def _strike_node(self) -> bool:
        """A whole worker goes, and one more comes."""
        self.cluster.workers.pop().kill()
        self.cluster.add_worker()
        return True


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "spark") as made:
        yield made


@pytest.mark.usefixtures("keys")
def test_whenever_parts_of_a_cluster_are_killed_everything_is_in_the_tables_once(
    tmp_path: Path, made: Truth, cluster: Cluster
) -> None:
    feed = Feed(tmp_path / "made", tmp_path / "journal")
    ordeal = OnCluster(starter(tmp_path, cluster.master), feed, tmp_path / "tables", Random(SEED))
    ordeal.cluster = cluster
    try:
        ordeal.begin()
        ordeal.strike("executor", warm=True)
        ordeal.strike("node", warm=True)
        ordeal.feed.add(len(ordeal.feed))
    finally:
        ordeal.close()
    run_once(tmp_path)
    assert len(ordeal.struck) == 2
    assert found(tmp_path / "tables") == expected(made)
    assert not wrong_values(tmp_path / "tables")


DAMAGES = ("changed", "torn", "truncated", "emptied")


def damage(path: Path, how: str) -> None:
    """Change 64 bytes in the middle, or where a page begins; or leave half of the file, or nothing."""
    whole = path.read_bytes()
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "emptied":
        path.write_bytes(b"")
    else:
        column = pq.read_metadata(path).row_group(0).column(0)
        at = len(whole) // 2 if how == "changed" else column.data_page_offset
        changed = bytes(byte ^ 0xFF for byte in whole[at : at + 64])
        path.write_bytes(whole[:at] + changed + whole[at + 64 :])


@dataclass(frozen=True)
class Hurt:
    """A journal with one damaged segment of each kind between good ones, and its tables.

    Attributes:
        tables: their folder.
        intact: identities of what was in good segments.
        lost: identities of what was in each damaged one.
        files: names of these.
    """

    tables: Path
    intact: set[Identity]
    lost: dict[str, set[Identity]]
    files: dict[str, str]


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Hurt:
    folder = tmp_path_factory.mktemp("hurt")
    recording = Recording(published=2700, agents=2, restarts=0, lost=0.0, repeated=0.0, damaged=0.0)
    write_journal(folder / "journal", recording, rows_per_segment=300)
    paths = [path for _, path in segments(folder / "journal")]
    bad = dict(zip(DAMAGES, paths[1::2], strict=True))
    lost = {how: numbers(path) for how, path in bad.items()}
    intact = {row for path in paths[::2] for row in numbers(path)}
    for how, path in bad.items():
        damage(path, how)
    run_once(folder, PZC_KEY="lab")
    return Hurt(folder / "tables", intact, lost, {how: path.name for how, path in bad.items()})


def test_damaged_segments_keep_nothing_of_good_ones_from_the_tables(hurt: Hurt) -> None:
    rows = stored(hurt.tables, "notifications", *IDENTITY)
    assert len(set(rows)) == len(rows)
    assert hurt.intact <= set(rows)
    assert set(rows) <= hurt.intact.union(*hurt.lost.values())


@pytest.mark.parametrize("how", DAMAGES)
def test_what_a_damaged_segment_held_is_in_the_tables_or_missing_and_somebody_is_told(
    hurt: Hurt, how: str
) -> None:
    absent = hurt.lost[how] - set(stored(hurt.tables, "notifications", *IDENTITY))
    gaps = stored(hurt.tables, "gaps", "publisher", "topic", "first_missing", "last_missing")
    missing = {(who, topic, number) for who, topic, first, last in gaps for number in range(first, last + 1)}
    assert absent
    assert absent <= missing
    named = [file for (file,) in stored(hurt.tables, "damaged", "file")]
    refused = set(stored(hurt.tables, "quarantine", *IDENTITY))
    assert hurt.files[how] in named or absent <= refused


def numbers(path: Path) -> set[Identity]:
    columns = pq.read_table(path, columns=list(IDENTITY))
    return set(zip(*(columns.column(name).to_pylist() for name in IDENTITY), strict=True))


def test_a_journal_is_only_read(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    write_journal(journal, Recording(published=600), rows_per_segment=200)
    journal.chmod(0o555)
    before = state(journal)
    run_once(tmp_path, PZC_KEY="lab")
    assert state(journal) == before
    assert (tmp_path / "tables" / "notifications").is_dir()


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Names, sizes, times and modes; the folder's own time tells of files that came and went."""
    return {
        path.name: (path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_mode)
        for path in (folder, *folder.iterdir())
    }


def test_what_was_signed_with_a_key_that_came_later_is_found_by_a_backfill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(published=900, secrets=ROTATED)
    truth = write_journal(tmp_path / "journal", recording)
    run_once(tmp_path, PZC_KEY="old")
    assert found(tmp_path / "tables")["damaged"] > truth.rows / 3
    (tmp_path / "keys.toml").write_text(KEYRING, encoding="utf-8")
    monkeypatch.setenv("PZC_KEYRING", str(tmp_path / "keys.toml"))
    day = recording.start.date().isoformat()
    days = "--from", day, "--to", day
    run_pipeline(tmp_path / "journal", tmp_path / "tables", "local[1]", *days, secret=None, job="backfill")
    assert found(tmp_path / "tables") == expected(truth)
