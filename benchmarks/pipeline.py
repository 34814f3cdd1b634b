"""Rows per second of the pipeline on this machine: ``python -m benchmarks.pipeline [ROWS]``.

A journal of signed readings is read, verified and decoded, first in one process, then by Spark with one
worker per core. Each number is the best of three.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from pzc.pipeline import jobs
from pzc.pipeline.decode import make_decoder
from pzc.pipeline.journal import Journal, JournalRow
from pzc.pipeline.schema import segments
from pzc.pipeline.session import cores, spark_session
from pzc.pipeline.texts import format_table
from pzc.protocol.codec import Codec
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Keyring

SECRET = "benchmark"
AGENTS = 4
START_MS = 1_700_000_000_000
REPEATS = 3


def record(directory: Path, rows: int, serializer: str) -> None:
    """Write a journal of ``rows`` floats of a few agents."""
    codec = Codec(Keyring.from_key(SECRET), serializer=serializer)
    ids = [MessageIds(epoch) for epoch in range(AGENTS)]
    with Journal(directory, recorder="benchmark", max_bytes=16 << 20) as journal:
        for number in range(rows):
            agent = number % AGENTS
            sender, now = f"{agent:032x}", START_MS + number
            frames = codec.encode(
                sender, "voltage", number * 0.5, msgid=ids[agent].next_urn(now), sequence=number // AGENTS + 1
            )
            journal.append(
                JournalRow(frames, sender, "voltage", number // AGENTS + 1, now / 1000, f"psu{agent}")
            )


def best(job: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return min(times)


def measure(rows: int) -> list[tuple[str, str, float]]:
    """Serializer, step, rows per second."""
    found = []
    spark = spark_session("pzc benchmark", f"local[{cores('local[*]')}]")
    try:
        for serializer in ("msgpack", "pickle"):
            with tempfile.TemporaryDirectory() as folder:
                journal = Path(folder)
                record(journal, rows, serializer)
                decoder = make_decoder(SECRET, journal=journal)
                batches = [b for _, path in segments(journal) for b in pq.read_table(path).to_batches(10_000)]
                read = jobs.read_journal(spark, journal)

                def noop(frame: jobs.DataFrame) -> None:
                    frame.write.format("noop").mode("overwrite").save()

                steps = {
                    "verify + decode, one process": lambda d=decoder, b=batches: sum(map(len, d(b))),
                    "Spark: read": lambda r=read: noop(r),
                    "Spark: read + verify + decode": lambda r=read, d=decoder: noop(
                        jobs.verify_and_decode(r, d)
                    ),
                }
                found += [(serializer, step, rows / best(job)) for step, job in steps.items()]
    finally:
        spark.stop()
    return found


def main() -> None:
    """Print the table."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    table = [(serializer, step, f"{rate / 1000:.0f} k") for serializer, step, rate in measure(rows)]
    print(format_table(("content", "step", "rows/s"), table, title=f"{rows} rows, {cores('local[*]')} cores"))


if __name__ == "__main__":
    main()
