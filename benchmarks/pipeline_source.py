"""The direct Spark source on this machine: ``python -m benchmarks.pipeline_source``, see ``--help``.

A process publishes signed readings at a steady rate; a query reads them out of a mailbox and writes Parquet.
For each row the time is told from its publication until the batch that has it is in the table's log, so that
whoever reads the table finds it: for the time in which Spark and its Python processes start and what was
published meanwhile is made good, and for the steady stream after that. Then a full mailbox is read as fast as
it goes, without and with verifying and decoding. At last the same two for ``pzc pipeline follow``,
which makes all tables; there a row can be queried when its batch is in the commit log.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pzc import Agent, Protocol
from pzc.console.tables import write_table
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.reporting.texts import show
from pzc.pipeline.source import read_stream
from pzc.pipeline.source.options import read_options
from pzc.pipeline.spark.session import spark_session
from pzc.pipeline.tables.batches import Batch, Settings
from pzc.pipeline.tables.run import Pace
from pzc.pipeline.tables.spool import follow
from pzc.pipeline.tables.work import Inline

from benchmarks.machine import Load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SECRET = "a key of the benchmark"
STARTING = 30.0
"""Seconds of a steady stream that are told apart: processes start, the JVM compiles, the backlog goes."""

PARTS = ("triggerExecution", "addBatch", "walCommit", "commitOffsets")
"""Of a batch, as Spark names them in its progress: all of it, the work, two files of the checkpoint."""

EVERY = 0.2
"""Seconds between two looks of a run that makes all tables."""

STEP = 0.002
PATIENCE = 180
TOPIC = "voltage"


def publish() -> None:
    """The publishing process: one JSON order per line of standard input, one answer per line."""
    with Agent(name="psu") as agent:
        print(json.dumps(agent.rep_endpoint), flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            if order["do"] == "mailboxes":
                answer: Any = agent.statistics()["mailboxes"]
            elif order["do"] == "steady":
                answer = _steadily(agent, order["rate"], order["seconds"])
            else:
                for number in range(order["rows"]):
                    agent.publish(TOPIC, number * 0.5)
                answer = order["rows"]
            print(json.dumps(answer), flush=True)


def _steadily(agent: Agent, rate: float, seconds: float) -> int:
    began, sent, total = time.monotonic(), 0, int(rate * seconds)
    pause = threading.Event()
    while sent < total:
        due = min(total, int((time.monotonic() - began) * rate) + 1)
        for number in range(sent, due):
            agent.publish(TOPIC, number * 0.5)
        sent = due
        pause.wait(STEP)
    return sent


class Publisher:
    """That process, as the benchmark sees it; leaving the context ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.pipeline_source", "--publish"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.endpoint = self.finish()

    def start(self, do: str, **order: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()

    def finish(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, do: str, **order: float) -> Any:
        self.start(do, **order)
        return self.finish()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process.stdout.close()


def await_(condition: Any, what: str) -> None:
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        pause.wait(0.05)


@contextlib.contextmanager
def query(
    spark: SparkSession,
    publisher: Publisher,
    directory: Path,
    name: str,
    trigger: dict[str, Any],
    **options: object,
) -> Iterator[StreamingQuery]:
    """Stream into Parquet below a directory."""
    rows = read_stream(spark, publisher.endpoint, name, spool=directory / "spool", **options)
    writer = rows.writeStream.format("parquet").option("path", str(directory / "table"))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    started = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield started
    finally:
        started.stop()


def committed(running: StreamingQuery) -> int:
    """Rows of all batches that are done."""
    told = running.lastProgress
    return 0 if told is None else json.loads(told.sources[0].endOffset or "{}").get("rows", 0)


def visible(table: Path) -> dict[str, float]:
    """When each file of a table came into its log, in Unix seconds."""
    found: dict[str, float] = {}
    for log in sorted((table / "_spark_metadata").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        if log.name.split(".")[0].isdigit():
            for line in log.read_text(encoding="utf-8").splitlines()[1:]:
                found.setdefault(Path(json.loads(line)["path"]).name, log.stat().st_mtime)
    return found


def ages(table: Path, since: float) -> tuple[np.ndarray, np.ndarray]:
    """Seconds from publication to visibility of the rows published before a moment, and of those after it."""
    before, after = [], []
    for name, when in visible(table).items():
        found = pq.read_table(table / name, columns=["sent_at"])["sent_at"]
        sent = found.cast(pa.timestamp("us")).cast("int64").to_numpy() / 1e6
        before.append(when - sent[sent < since])
        after.append(when - sent[sent >= since])
    return np.concatenate(before), np.concatenate(after)


def latency(spark: SparkSession, rate: float, seconds: float) -> list[tuple[str, str]]:
    """Ages at the start and after it, and what the later half of the batches took."""
    with tempfile.TemporaryDirectory() as folder, Publisher() as publisher:
        place = Path(folder)
        with query(spark, publisher, place, "steady", {}) as running:
            await_(lambda: any(each["subscriptions"] for each in publisher.ask("mailboxes")), "subscribed")
            began = time.time()
            sent = publisher.ask("steady", rate=rate, seconds=STARTING + seconds)
            await_(lambda: committed(running) >= sent, "committed")
            batches = [each for each in running.recentProgress if each.numInputRows]
        starting, steady = ages(place / "table", began + STARTING)
    later = batches[len(batches) // 2 :]
    took = [f"{np.median([each.durationMs.get(part, 0) for each in later]):.0f}" for part in PARTS]
    case = f"publication to queryable row at {rate:g}/s"
    return [
        (f"{case}, first {STARTING:g} s, p50 and p95", _percentiles(starting, 50, 95)),
        (f"the same, {seconds:g} s after that, p50", _percentiles(steady, 50)),
        ("the same, p95 (bar 1.5 s)", _percentiles(steady, 95)),
        ("the same, p99 and longest", _percentiles(steady, 99, 100)),
        ("rows of that, and recent batches", f"{len(steady)}, {len(batches)}"),
        ("median of the later batches: all, work, two logs", f"{', '.join(took)} ms"),
    ]


def _percentiles(seconds: np.ndarray, *which: float) -> str:
    return ", ".join(f"{each:.2f} s" for each in np.percentile(seconds, which))


def throughput(spark: SparkSession, rows: int, decode: bool) -> float:
    """Rows per second of the batches that read a full mailbox; the first batch is not counted."""
    with tempfile.TemporaryDirectory() as folder, Publisher() as publisher:
        options = {"decode": decode, "mailboxMessages": 1_000_000, "maxRowsPerBatch": rows // 5}
        name = f"full-{decode}"
        with query(spark, publisher, Path(folder), name, {"availableNow": True}, **options) as running:
            running.awaitTermination(PATIENCE)
        publisher.ask("burst", rows=rows)
        with query(spark, publisher, Path(folder), name, {"availableNow": True}, **options) as running:
            running.awaitTermination(PATIENCE)
            batches = [each for each in running.recentProgress if each.numInputRows][1:]
        return sum(each.numInputRows for each in batches) / sum(each.batchDuration for each in batches) * 1000


class Told:
    """When the batches of a run came into the tables, and the times of sending of their rows."""

    def __init__(self, tables: Path) -> None:
        self._tables, self._known, self._last = tables, set[Path](), 0
        self.came: list[tuple[float, int]] = []
        self.sent: list[np.ndarray] = []

    def __call__(self, batch: Batch) -> None:
        self.came.append((time.time(), batch.rows))
        fresh = set((self._tables / "notifications").rglob("*.parquet")) - self._known
        self._known |= fresh
        rows = [pq.read_table(path, columns=["sent_at", "sequence"]) for path in fresh]
        times = [table["sent_at"].cast("int64").to_numpy() for table in rows]
        numbers = np.concatenate([table["sequence"].to_numpy() for table in rows] or [np.empty(0)])
        # Files that were merged have rows that were there before.
        self.sent.append(np.concatenate(times or [np.empty(0)])[numbers > self._last] / 1e6)
        self._last = max(self._last, int(numbers.max(initial=0)))

    def ages(self) -> tuple[np.ndarray, np.ndarray]:
        """Times of sending, and how old the rows were when they were there."""
        aged = [when - sent for (when, _), sent in zip(self.came, self.sent, strict=True)]
        return np.concatenate(self.sent), np.concatenate(aged)

    def rate(self) -> float:
        """Rows per second from the end of the first batch to that of the last one."""
        return sum(rows for _, rows in self.came[1:]) / (self.came[-1][0] - self.came[0][0])


@contextlib.contextmanager
def following(publisher: Publisher, folder: str, **given: object) -> Iterator[Told]:
    """Tables of a publisher, by a run that is to be started; it is waited for when it was started once."""
    tables, stop = Path(folder), threading.Event()
    told = Told(tables)
    named = {"agents": publisher.endpoint, "name": "tables", **given}
    options = read_options({name: str(one) for name, one in named.items()}, streaming=True)
    settings = Settings(make_decoder(Protocol().codec.keyring))
    pace = Pace(EVERY, once=bool(given), stop=stop)
    thread = threading.Thread(target=follow, args=(options, tables, settings, Inline(), told, pace))
    thread.start()
    try:
        yield told
    finally:
        if not given:
            stop.set()
        thread.join(PATIENCE)


def tables_latency(rate: float, seconds: float) -> list[tuple[str, str]]:
    """As `latency`, of a run that makes all tables."""
    with tempfile.TemporaryDirectory() as folder, Publisher() as publisher:
        with following(publisher, folder) as told:
            await_(lambda: any(each["subscriptions"] for each in publisher.ask("mailboxes")), "subscribed")
            began = time.time()
            publisher.ask("steady", rate=rate, seconds=STARTING + seconds)
            await_(lambda: not sum(each["waiting"] for each in publisher.ask("mailboxes")), "acknowledged")
        sent, aged = told.ages()
    steady = aged[sent >= began + STARTING]
    return [
        (f"all tables at {rate:g}/s, after {STARTING:g} s, p50 and p95", _percentiles(steady, 50, 95)),
        ("the same, p99 and longest; batches", f"{_percentiles(steady, 99, 100)}; {len(told.came)}"),
    ]


def tables_throughput(rows: int) -> float:
    """As `throughput`, of a run that makes all tables."""
    options: dict[str, object] = {"mailboxMessages": 1_000_000, "maxRowsPerBatch": rows // 5}
    with tempfile.TemporaryDirectory() as folder, Publisher() as publisher:
        with following(publisher, folder, **options):
            pass
        publisher.ask("burst", rows=rows)
        with following(publisher, folder, **options) as told:
            pass
        return told.rate()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline_source", description=__doc__)
    parser.add_argument("--rate", type=float, default=5000.0, help="notifications per second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the steady stream that count")
    parser.add_argument("--rows", type=int, default=300_000, help="in the full mailbox")
    parser.add_argument("--publish", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.setdefault("PZC_KEY", SECRET)
    os.environ.setdefault("PZC_DISCOVERY_IP", "off")
    if args.publish:
        publish()
        return 0
    load = Load()
    spark = spark_session("pzc-benchmark")
    try:
        table = latency(spark, args.rate, args.seconds)
        plain, verified = (throughput(spark, args.rows, decode) for decode in (False, True))
        made = [*tables_latency(args.rate, args.seconds)]
        made.append(("a full mailbox into all tables", f"{tables_throughput(args.rows):,.0f} rows/s"))
    finally:
        spark.stop()
    table += [
        ("a full mailbox into Parquet", f"{plain:,.0f} rows/s"),
        ("the same, verified and decoded", f"{verified:,.0f} rows/s"),
        *made,
    ]
    write_table(["what", "result"], [list(map(show, row)) for row in table])
    print(load.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
