"""The pipeline's speed beside its bars: ``python -m benchmarks.pipeline [--rows N] [--large]``.

Every case works on journals of signed readings with losses, repetitions, damage and restarts, and its
tables are compared with the truth about them. Rates are rows of the journal by wall time, with one Spark
worker per core; beside them stands the processor time per row of all processes, which a busy machine
changes less."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

import pzc
from pzc import Agent, Protocol
from pzc.console.tables import write_table
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.recording.recorder import Recorder
from pzc.pipeline.reporting.texts import show
from pzc.pipeline.schema import DECODED, JOURNAL, ddl, segments
from pzc.pipeline.spark.session import spark_session
from pzc.pipeline.spark.workers import SparkWorkers
from pzc.pipeline.tables.batches import Batch, Settings
from pzc.pipeline.tables.run import Pace, run
from pzc.pipeline.tables.work import Inline, Workers
from pzc.protocol.frames import Kind
from pzc.protocol.ids import Stamp
from pzc.protocol.keyring import Key
from pzc.protocol.signing import Suite, sealer
from pzc.testing.journals import Recording, Truth, write_journal

SECRET = "a key of the lab"
MASTER = "local[2]"
REPEATS = 3
MILLION = 1_000_000
STEADY = 5000
"""Notifications per second of the case of the delay."""


@dataclass(frozen=True)
class Row:
    """One line of the table; ``met`` is None when there is no bar."""

    case: str
    found: str
    bar: str = ""
    met: bool | None = None


class WrongResult(Exception):
    """The tables do not hold what is in the journal: their speed says nothing."""


@dataclass(frozen=True)
class Took:
    """Wall and processor time of all processes, in seconds."""

    wall: float
    cpu: float


def processor() -> float:
    """Processor time of this process and all below it, in seconds."""
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def measured(job: Callable[[], object]) -> Took:
    """What a job takes."""
    cpu, wall = processor(), time.perf_counter()
    job()
    return Took(time.perf_counter() - wall, processor() - cpu)


def best(job: Callable[[], object]) -> Took:
    """The fastest of some runs."""
    return min((measured(job) for _ in range(REPEATS)), key=lambda took: took.wall)


def shown(took: Took, rows: int) -> str:
    """Rate, and processor time per row."""
    return f"{rows / took.wall / 1000:.0f} k/s, {took.cpu / rows * 1e6:.1f} µs CPU per row"


def one_process(journal: Path) -> list[Row]:
    """Verify and decode without Spark, beside what the tags alone cost."""
    batches = [batch for _, path in segments(journal) for batch in pq.read_table(path).to_batches(10_000)]
    rows = sum(map(len, batches))
    seal = sealer(Key(SECRET), Suite.HMAC_SHA256, Kind.NOTIFICATION, "", "", 0).seal
    frames = Stamp(0, 0, 0), bytes(60), b"msgpack", bytes(45), bytes(9)
    rounds: list[tuple[float, float]] = []
    for _ in range(REPEATS):
        decoder = make_decoder(SECRET, journal=journal)
        began = time.process_time()
        for _ in decoder(batches):
            pass
        between = time.process_time()
        for _ in range(rows):
            seal(*frames)
        rounds.append(((between - began) / rows * 1e6, (time.process_time() - between) / rows * 1e6))
    ours, floor = (statistics.median(column) for column in zip(*rounds, strict=True))
    return [Row("verify + decode, one process", f"{ours:.1f} µs CPU per row; the tag alone {floor:.1f}")]


def read_only(spark: Any, journal: Path, rows: int) -> list[Row]:
    """Verify and decode in Spark, nothing written."""
    decoder = make_decoder(SECRET, journal=journal)
    recorded = spark.read.schema(ddl(JOURNAL)).parquet(*(str(path) for _, path in segments(journal)))
    verified = recorded.mapInArrow(decoder, ddl(DECODED)).select("error")

    def work() -> None:
        verified.write.format("noop").mode("overwrite").save()

    work()
    took = best(work)
    rate = rows / took.wall
    return [Row(f"verify + decode, {MASTER}", shown(took, rows), "≥ 200 k/s", rate >= 200_000)]


def run_once(workers: Workers, journal: Path, tables: Path) -> list[Batch]:
    """Bring everything that is there into tables, as the command does by default."""
    made: list[Batch] = []
    settings = Settings(make_decoder(SECRET, journal=journal))
    run(journal, tables, settings, workers, made.append, Pace(once=True))
    return made


def check(tables: Path, truth: Truth) -> None:
    """Compare tables with the truth."""
    stored = pzc.tables(tables)
    found = {
        "notifications": stored["notifications"].count_rows(),
        "damaged": stored["quarantine"].count_rows(),
        "missing": sum(stored["gaps"].to_table(["count"])["count"].to_pylist()),
    }
    wanted = {name: getattr(truth, name) for name in found}
    if found != wanted:
        raise WrongResult(f"found {found}, there are {wanted}")


def following(
    workers: Workers, folder: Path, sizes: list[int], journals: dict[int, tuple[Path, Truth]]
) -> list[Row]:
    """From an empty folder to all tables, for more and more rows."""
    found: list[Row] = []
    per_row: dict[int, Took] = {}
    for size in sizes:
        journal, truth = journals[size]
        took = measured(lambda j=journal, s=size: run_once(workers, j, folder / f"tables-{s}"))
        check(folder / f"tables-{size}", truth)
        per_row[size] = took
        bar, met = ("≥ 130 k/s", truth.rows / took.wall >= 130_000) if size == sizes[-1] else ("", None)
        name = f"run --once: all tables of {truth.rows / MILLION:.1f} M rows, {MASTER}"
        found.append(Row(name, shown(took, truth.rows), bar, met))
    least, most = sizes[0], sizes[-1]
    rows = {size: journals[size][1].rows for size in sizes}
    wall = (per_row[most].wall / rows[most]) / (per_row[least].wall / rows[least])
    cpu = (per_row[most].cpu / rows[most]) / (per_row[least].cpu / rows[least])
    name = f"time per row, {least // MILLION} → {most // MILLION} M rows"
    found.append(Row(name, f"wall {wall:.2f}, CPU {cpu:.2f}", "≤ 1.1 times", wall <= 1.1))
    return found


def alone(folder: Path, journal: Path, truth: Truth) -> list[Row]:
    """The same in one process, without Spark."""
    took = measured(lambda: run_once(Inline(), journal, folder / "tables-alone"))
    check(folder / "tables-alone", truth)
    name = f"the same, {truth.rows / MILLION:.1f} M rows, one process without Spark"
    return [Row(name, shown(took, truth.rows))]


def delay(workers: Workers, folder: Path, seconds: float) -> list[Row]:
    """From publish to a row that a reader of the table finds, at a steady pace."""
    journal, tables = folder / "live", folder / "live-tables"
    late: list[float] = []

    def told(batch: Batch) -> None:
        """The batch's newest files, as any reader would read them."""
        now = time.time()
        fresh = max((tables / "notifications").rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        name = fresh.name.rsplit("-", 1)[0]
        for path in (tables / "notifications").rglob(f"{name}-*.parquet"):
            sent = pq.read_table(path, columns=["sent_at"]).column(0).cast("int64").to_numpy()
            late.extend(now - one / 1e6 for one in sent[::50])

    protocol = Protocol(SECRET, "msgpack")
    settings = Settings(make_decoder(SECRET, journal=journal))
    with (
        Agent(name="steady", protocol=protocol) as agent,
        Recorder(journal, [agent.rep_endpoint], name="benchmark", protocol=protocol, max_age=0.5) as recorder,
        keeping_up(journal, tables, settings, workers, told),
    ):
        pause = threading.Event()
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < seconds:
            for _ in range(int(passed * STEADY) - sent):
                agent.publish("voltage", sent * 0.5)
                sent += 1
            pause.wait(0.005)
        recorder.drain()
        pause.wait(5)
    if not late:
        raise WrongResult("no batch came")
    late = late[len(late) // 5 :]  # the first batches start Spark's workers
    p50, p95 = statistics.median(late), statistics.quantiles(late, n=20)[-1]
    name = f"publish to queryable row, {STEADY}/s for {seconds:.0f} s"
    return [Row(name, f"p50 {p50:.2f} s, p95 {p95:.2f} s", "p95 ≤ 3 s", p95 <= 3)]


@contextmanager
def keeping_up(
    journal: Path, tables: Path, settings: Settings, workers: Workers, told: Callable[[Batch], object]
) -> Iterator[None]:
    """A run in a thread of its own."""
    stop = threading.Event()
    pace = Pace(every=0.2, stop=stop)
    thread = threading.Thread(target=run, args=(journal, tables, settings, workers, told, pace))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tell(rows: list[Row]) -> list[Row]:
    """Print lines while the run goes on; gives them back."""
    for row in rows:
        print(f"{row.case}: {row.found}", file=sys.stderr, flush=True)
    return rows


def measure(rows: int, large: bool, seconds: float, folder: Path) -> list[Row]:
    """All cases."""
    sizes = [rows, 10 * rows, *([100 * rows] if large else [])]
    journals: dict[int, tuple[Path, Truth]] = {}
    for size in sizes:
        journal = folder / f"journal-{size}"
        journals[size] = journal, write_journal(journal, Recording(published=size), processes=2)
        print(f"journal of {journals[size][1].rows} rows is written", file=sys.stderr, flush=True)
    found = tell(one_process(journals[rows][0]))
    spark = spark_session("pzc benchmark", MASTER)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        found += tell(read_only(spark, journals[rows][0], journals[rows][1].rows))
        workers = SparkWorkers(lambda: spark)
        run_once(workers, journals[rows][0], folder / "warm")
        found += tell(following(workers, folder, sizes, journals))
        found += tell(alone(folder, *journals[rows]))
        if seconds:
            found += tell(delay(workers, folder, seconds))
    finally:
        spark.stop()
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--rows", type=int, default=MILLION, help="of the smallest journal, default a million"
    )
    parser.add_argument("--large", action="store_true", help="a journal of 100 times as many as well")
    parser.add_argument("--seconds", type=float, default=30.0, help="of the case of the delay; 0 for none")
    parser.add_argument("--folder", type=Path, help="for journals and tables; default a temporary one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        found = measure(args.rows, args.large, args.seconds, Path(folder))
    words = {None: "", True: "yes", False: "no"}
    table = [(row.case, row.found, row.bar, words[row.met]) for row in found]
    write_table(("case", "found", "bar", "met"), [list(map(show, row)) for row in table])


if __name__ == "__main__":
    main()
