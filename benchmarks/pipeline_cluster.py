"""The pipeline on a cluster and on this machine alone: ``python -m benchmarks.pipeline_cluster [ROWS]``.

A journal is made, and ``pzc pipeline run --once`` makes tables of it twice: with a local master, and on a
cluster of two workers of one core that get the package as a wheel. Both must hold the same rows, and what the
journal is known to hold. On one machine a cluster is not faster than a local run: both have its cores.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from pzc.console.tables import write_table
from pzc.pipeline.reporting.texts import show
from pzc.pipeline.spark.session import cores, spark_session
from pzc.testing.journals import Recording, Truth, write_journal

from .spark_cluster import Cluster, build_wheel, environment_without_pzc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECRET = "a key of the benchmark"
WORKERS = 2
PROCESSES = 2
TIMEOUT = 7200.0

_EXACT = ("notifications", "quarantine", "gaps")
_DIGITS = 9


class RunFailed(Exception):
    """The command failed; the text has what it said."""


def run_pipeline(
    journal: Path | str,
    tables: Path,
    master: str,
    *options: str,
    job: str = "run",
    secret: str | None = SECRET,
    python: Path | None = None,
    timeout: float = TIMEOUT,
) -> float:
    """Run ``pzc pipeline run --once``, or another of its jobs, as a process; seconds that it took.

    Args:
        journal: directory; of the job ``follow``, agents.
        tables: directory.
        master: of Spark.
        options: of the command.
        job: of the command.
        secret: the key; None for the one of this environment.
        python: interpreter of a cluster's nodes.
        timeout: seconds.

    Raises:
        RunFailed: when it fails.
    """
    environment = dict(os.environ)
    if secret is not None:
        environment["PZC_KEY"] = secret
    if python is not None:
        environment["PYSPARK_PYTHON"] = str(python)
    command = [
        sys.executable, "-m", "pzc", "pipeline", job, str(journal), str(tables), "--master", master,
        *(["--once"] if job in ("run", "follow") else []), *options,
    ]  # fmt: skip
    began = time.perf_counter()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode:
        raise RunFailed(done.stderr[-3000:])
    return time.perf_counter() - began


def files(tables: Path, name: str) -> Iterator[Path]:
    """The files of a table, without what a run has not finished."""
    for path in sorted((tables / name).rglob("*.parquet")):
        if not any(part.startswith((".", "_")) for part in path.relative_to(tables).parts):
            yield path


def stored(tables: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a table; no rows when it has no files."""
    found: list[tuple[Any, ...]] = []
    for path in files(tables, name):
        with pq.ParquetFile(path) as file:
            rows = file.read(list(columns))
        found += zip(*(rows.column(column).to_pylist() for column in columns), strict=True)
    return found


def found(tables: Path) -> dict[str, int]:
    """What tables hold, by the names that `pzc.testing.journals.Truth` has for it."""
    gaps = [count for (count,) in stored(tables, "gaps", "count")]
    return {
        "notifications": sum(pq.read_metadata(path).num_rows for path in files(tables, "notifications")),
        "damaged": sum(pq.read_metadata(path).num_rows for path in files(tables, "quarantine")),
        "gaps": len(gaps),
        "missing": sum(gaps),
    }


def expected(truth: Truth) -> dict[str, int]:
    """The same, as it has to be."""
    return {name: getattr(truth, name) for name in ("notifications", "damaged", "gaps", "missing")}


def differing(spark: SparkSession, one: Path, other: Path) -> dict[str, int]:
    """Rows that only one of two folders of tables has, by table; sums of floats are compared rounded."""
    from pzc.pipeline.snapshot import Tables
    from pzc.pipeline.spark.workers import read_table

    counts = {}
    for name in (*_EXACT, "statistics"):
        left, right = (_rounded(read_table(spark, Tables(folder), name)) for folder in (one, other))
        counts[name] = left.exceptAll(right).count() + right.exceptAll(left).count()
    return counts


def _rounded(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as fn

    doubles = [name for name, kind in frame.dtypes if kind == "double"]
    return frame.withColumns({name: fn.format_number(name, _DIGITS) for name in doubles})


@dataclass(frozen=True)
class Comparison:
    """Seconds and bytes of one journal, its tables made twice, and what was wrong with them."""

    truth: Truth
    made: float
    local: float
    cluster: float
    tables: int
    wrong: dict[str, Any]


def compare(folder: Path, rows: int, wheel: Path) -> Comparison:
    """Make a journal, and its tables twice."""
    journal, local, remote = folder / "journal", folder / "local", folder / "cluster"
    began = time.perf_counter()
    truth = write_journal(
        journal,
        Recording(published=rows, secrets=(SECRET,)),
        processes=PROCESSES,
        rows_per_segment=_part(rows),
    )
    made = time.perf_counter() - began
    seconds = run_pipeline(journal, local, f"local[{WORKERS}]")
    python = environment_without_pzc(folder / "nodes")
    with Cluster(folder / "spark", WORKERS) as cluster:
        remote_seconds = run_pipeline(journal, remote, cluster.master, "--wheel", str(wheel), python=python)
    size = sum(path.stat().st_size for path in (remote / "notifications").rglob("*.parquet"))
    spark = spark_session("pzc benchmark", "local[2]", driver_memory="4g")
    try:
        wrong: dict[str, Any] = {name: n for name, n in differing(spark, local, remote).items() if n}
        told, wanted = found(remote), expected(truth)
        wrong |= {f"{name} in all": n for name, n in told.items() if n != wanted[name]}
    finally:
        spark.stop()
    return Comparison(truth, made, seconds, remote_seconds, size, wrong)


def _part(rows: int) -> int:
    """Rows of a segment: at least eight segments, as few as a recorder's size makes."""
    return min(500_000, math.ceil(rows / 8))


def table(result: Comparison) -> Sequence[Sequence[str]]:
    """Step, seconds, rows per second, bytes per row."""
    truth = result.truth
    steps = (
        ("make the journal", result.made, truth.size / truth.rows),
        ("local", result.local, result.tables / truth.notifications),
        ("cluster", result.cluster, result.tables / truth.notifications),
    )
    return [
        (step, f"{seconds:.0f}", f"{truth.rows / seconds / 1000:.1f} k", f"{size:.0f}")
        for step, seconds, size in steps
    ]


def main() -> int:
    """Print the table; 1 when the two results differ, or are wrong."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = compare(folder, rows, build_wheel(folder / "wheel"))
    title = f"{result.truth.rows} rows, {WORKERS} workers of one core, a machine of {cores('local[*]')}"
    print(title)
    write_table(
        ("step", "s", "rows/s", "bytes/row"), [list(map(show, row)) for row in table(result)], (1, 2, 3)
    )
    if result.wrong:
        print(f"WRONG: {result.wrong}")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
