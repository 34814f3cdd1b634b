"""The pipeline on a real cluster: a master and two workers on loopback, whose Python does not have this package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pzc.pipeline.snapshot import Tables
from pzc.testing.journals import Recording, Truth, write_journal

from benchmarks.pipeline_cluster import differing, expected, found, run_pipeline
from benchmarks.spark_cluster import Cluster, build_wheel, environment_without_pzc
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.tables import run
from tests.pipeline.mailbox_rig import NAME, Post
from tests.pipeline.publishers import Publishers, await_, waiting

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(280),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

ROWS = 10_000
SECRET = "a key of the lab"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def truth(folder: Path) -> Truth:
    return write_journal(
        folder / "journal", Recording(published=ROWS, secrets=(SECRET,)), rows_per_segment=ROWS // 4
    )


@pytest.fixture(scope="module")
def python(folder: Path) -> Path:
    return environment_without_pzc(folder / "nodes")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> str:
    return str(build_wheel(folder / "wheel"))


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    with Cluster(folder / "spark") as made:
        yield made


def test_a_cluster_that_is_sent_the_wheel_makes_the_same_rows_as_one_machine(
    spark: Any, folder: Path, truth: Truth, cluster: Cluster, python: Path, wheel: str
) -> None:
    run_pipeline(
        folder / "journal", folder / "remote", cluster.master, "--wheel", wheel, secret=SECRET, python=python
    )
    assert run(folder, "pipeline", "run", "journal", "local", "--once", key=SECRET).status == 0
    assert found(folder / "remote") == expected(truth)
    assert not any(differing(spark, folder / "local", folder / "remote").values())


def test_workers_of_a_cluster_get_the_rows_of_agents_from_the_journal(
    folder: Path, cluster: Cluster, python: Path, wheel: str, publishers: Publishers
) -> None:
    tables = folder / "mailboxes"
    hands = [publishers.start() for _ in range(2)]
    post = Post(tables, *hands)
    post.open()
    for hand in hands:
        hand.ask("publish", "v", ROWS)
    options = "--name", NAME, "--wheel", wheel
    run_pipeline(
        ",".join(post.agents), tables, cluster.master, *options, job="follow", secret=KEY, python=python
    )
    await_(lambda: not any(map(waiting, hands)))
    assert post.numbers() == sorted([*range(1, ROWS + 1)] * 2)
    assert post.rows("gaps", "count") == []


def test_tables_that_differ_in_two_rows_are_told_apart(spark: Any, tmp_path: Path) -> None:
    write_journal(tmp_path / "journal", Recording(published=100, secrets=(SECRET,)))
    for name in ("whole", "less"):
        assert run(tmp_path, "pipeline", "run", "journal", name, "--once", key=SECRET).status == 0
    path = Tables(tmp_path / "less").files("notifications")[0]
    pq.write_table(pq.ParquetFile(path).read().slice(2), path)
    assert differing(spark, tmp_path / "whole", tmp_path / "less") == {
        "notifications": 2, "quarantine": 0, "gaps": 0, "statistics": 0,
    }  # fmt: skip


def test_a_worker_without_the_package_is_told_before_anything_is_written(
    folder: Path, truth: Truth, cluster: Cluster, python: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "pzc",
        "pipeline",
        "run",
        str(folder / "journal"),
        str(folder / "none"),
        "--once",
    ]
    environment = {**os.environ, "PZC_KEY": SECRET, "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(
        [*command, "--master", cluster.master],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "a worker cannot run the pipeline" in done.stderr
    assert "No module named 'pzc'" in done.stderr
    assert "--wheel" in done.stderr
    assert not (folder / "none").exists()
