"""Whatever is killed of a pipeline, what is in the journal gets into the tables once.

``PIPELINE_MOMENTS=50`` with ``-o faulthandler_timeout=7200`` lets 50 things happen instead of a few.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from pzc.testing.journals import Recording, Truth, write_journal

from benchmarks.pipeline_cluster import expected, found, run_pipeline, stored
from benchmarks.spark_cluster import Cluster
from tests.contract.rigs.tables import KEYRING
from tests.pipeline.faults_pipeline import LONGEST, SEGMENTS_PER_MOMENT, Feed, Ordeal, Running
from tests.pipeline.publishers import await_

logger = logging.getLogger("tests.faults")

MOMENTS = int(os.environ.get("PIPELINE_MOMENTS", "3"))
SEED = int(os.environ.get("PIPELINE_SEED", "1"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(280 if MOMENTS < 4 else 120 * MOMENTS),
]

ROWS = 100
SEGMENTS = 4 + SEGMENTS_PER_MOMENT * MOMENTS
ROTATED = ("the older key of the lab", "the newer key of the lab")
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


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all pipelines of a test have both keys."""
    (tmp_path / "keys.toml").write_text(KEYRING, encoding="utf-8")
    (tmp_path / "keys.toml").chmod(0o600)
    monkeypatch.setenv("PZC_KEYRING", str(tmp_path / "keys.toml"))


def run_once(folder: Path) -> None:
    """Bring the tables of a folder up to date; the command must succeed."""
    run_pipeline(folder / "journal", folder / "tables", "local[1]", secret=None)


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
            "--in-process",
            "0",
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


@pytest.mark.usefixtures("keys", "made")
def test_a_run_that_waits_for_rows_ends_when_spark_is_killed_and_says_why(tmp_path: Path) -> None:
    Feed(tmp_path / "made", tmp_path / "journal")  # one segment, and no more
    running = starter(tmp_path)()
    try:
        await_(lambda: list((tmp_path / "tables" / "notifications").rglob("*.parquet")), "a batch", LONGEST)
        (machine,) = running.named("java")
        machine.kill()
        assert running.wait("Spark is gone", 60.0) == 1
    finally:
        running.close()
    assert running.told().splitlines()[-1].endswith("Spark's Java process is gone (status -9)")
