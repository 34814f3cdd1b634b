"""How fast a recorder is on this machine: ``python -m benchmarks.pipeline_recorder [--seconds S]``.

Publishers in processes of their own publish signed notifications at a pace, and one recorder writes them into
fsynced segments. Every case counts what is in the journal afterwards. Processor time is that of whole
processes, from the first notification to the last acknowledgement; a busy machine changes it less than rates.

A rate is that between two segments that became durable while the publishers were publishing, the first one
and the last one; where they publish at a pace, it is theirs. The last rows of a case wait until they are 5 s
old, because nothing follows that would fill their segment: that is in the times of acknowledgement, and in
the rate to the end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pzc import Agent, Protocol
from pzc.pipeline.recording.recorder import Recorder
from pzc.pipeline.schema import segments

from benchmarks.tables import table

SECRET = "a key of the lab"
UNPACED = 1e9
LOOK = 0.02
"""Seconds between two looks at what was acknowledged."""

PATIENCE = 120.0
WRITTEN = 1 << 30
"""Bytes that measure the disk."""


@dataclass(frozen=True)
class Case:
    """Publishers at a pace.

    Attributes:
        key: its name.
        publishers: processes.
        pace: notifications per second of all together.
        size: bytes of a content; 0 for a float.
        bar: notifications per second; None for a part of the disk's rate.
    """

    key: str
    publishers: int
    pace: float
    size: int
    bar: float | None


CASES = (
    Case("small", 1, UNPACED, 0, None),
    Case("small, two publishers", 2, UNPACED, 0, 100_000.0),
    Case("small, paced", 2, 50_000.0, 0, 50_000.0),
    Case("1 MiB", 1, UNPACED, 1 << 20, None),
)
DISK_SHARE = 0.5
LONGEST_ACKNOWLEDGEMENT = 6.0


# --- a publisher -------------------------------------------------------------------------------------------


class Publisher:
    """Publishes, and measures when what it published is acknowledged."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._sent: deque[tuple[int, float]] = deque()
        self._ages: list[float] = []
        self._number = 0
        self._over = threading.Event()

    def run(self, seconds: float, pace: float, size: int) -> dict[str, Any]:
        """Publish for so long, and wait until everything is acknowledged."""
        content = os.urandom(size) if size else 1.5
        watch = threading.Thread(target=self._watch)
        watch.start()
        begun, used = time.perf_counter(), time.process_time()
        step = 1 if size else 50
        while time.perf_counter() - begun < seconds:
            for _ in range(step):
                self._agent.publish("level", content)
            self._number += step
            self._sent.append((self._number, time.perf_counter()))
            ahead = begun + self._number / pace - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            while size and self._waiting() > 256 << 20:  # else the mailbox would evict
                time.sleep(LOOK)
        published = time.perf_counter() - begun
        self._over.set()
        watch.join(PATIENCE)
        return {
            "count": self._number, "published": published, "took": time.perf_counter() - begun,
            "cpu": time.process_time() - used, "ages": sorted(self._ages)[:: max(1, len(self._ages) // 1000)],
            "longest": max(self._ages, default=0.0), "evicted": self._box()["evicted"],
        }  # fmt: skip

    def _box(self) -> dict[str, Any]:
        return self._agent.statistics()["mailboxes"][0]

    def _waiting(self) -> int:
        return self._box()["bytes"]

    def _watch(self) -> None:
        while not self._over.is_set() or self._sent:
            box, now = self._box(), time.perf_counter()
            done = box["delivered"] + box["evicted"]
            while self._sent and self._sent[0][0] <= done:
                self._ages.append(now - self._sent.popleft()[1])
            time.sleep(LOOK)


def publish(arguments: list[str]) -> None:
    """In a process of its own: tell the endpoint, wait for a line, publish, tell what was measured."""
    seconds, pace, size = map(float, arguments)
    protocol = Protocol(SECRET, serializer="msgpack")
    with Agent(protocol=protocol, discovery=False) as agent:
        print(agent.rep_endpoint, flush=True)
        sys.stdin.readline()
        print(json.dumps(Publisher(agent).run(seconds, pace, int(size))), flush=True)
        sys.stdin.readline()


# --- the recorder ------------------------------------------------------------------------------------------


class Watch:
    """Notes when rows become durable, in a thread; times are seconds of `time.perf_counter`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._seen: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            durable = self._recorder.journal.durable_offset + 1
            if durable and (not self._seen or self._seen[-1][1] != durable):
                self._seen.append((time.perf_counter(), durable))

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join(PATIENCE)

    def rate(self, until: float) -> float | None:
        """Rows per second between the first segment and the last one before then; None for fewer than two."""
        seen = [each for each in self._seen if each[0] <= until]
        if len(seen) < 2:
            return None
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])


def disk_rate(folder: Path) -> float:
    """Bytes per second that the disk takes in one file, fsync included."""
    block, path = os.urandom(1 << 22), folder / "rate"
    begun = time.perf_counter()
    with open(path, "wb") as file:
        for _ in range(WRITTEN // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    took = time.perf_counter() - begun
    path.unlink()
    return WRITTEN / took


def run(case: Case, seconds: float, folder: Path, disk: float) -> tuple[list[str], bool]:
    """One line of the table, and whether its bars are met."""
    command = [sys.executable, "-m", "benchmarks.pipeline_recorder", "--publish"]
    pace = case.pace / case.publishers
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, str(seconds), str(pace), str(case.size)], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, text=True,
                )
            )
            for _ in range(case.publishers)
        ]  # fmt: skip
        for process in processes:
            stack.callback(process.kill)
        endpoints = [_line(process) for process in processes]
        with Recorder(folder / case.key, endpoints, protocol=Protocol(SECRET)) as recorder:
            watch = stack.enter_context(closing(Watch(recorder)))
            begun, used = time.perf_counter(), time.process_time()
            _tell(processes)
            found = [json.loads(_line(process)) for process in processes]
            took, cpu = time.perf_counter() - begun, time.process_time() - used
            published = min(each["published"] for each in found)
            rate = watch.rate(begun + published)
            told = recorder.statistics()
        _tell(processes)
    count = sum(each["count"] for each in found)
    rows = sum(pq.read_metadata(path).num_rows for _, path in segments(folder / case.key))
    evicted = sum(each["evicted"] for each in found)
    whole = rows + evicted >= count and not told["refused_by_journal"]
    if case.pace < UNPACED:
        rate = count / published
    return _judged(case, found, count, rate or count / took, took, cpu, disk, whole and not evicted)


def _judged(
    case: Case, found: list[dict[str, Any]], count: int, rate: float, took: float, cpu: float, disk: float,
    whole: bool,
) -> tuple[list[str], bool]:  # fmt: skip
    ages = sorted(age for each in found for age in each["ages"])
    longest = max(each["longest"] for each in found)
    good = whole and longest <= LONGEST_ACKNOWLEDGEMENT
    bar = "" if case.bar is None else f"{case.bar:,.0f}/s"
    good = good and (case.bar is None or rate >= 0.98 * case.bar)
    shown = f"{rate:,.0f}/s"
    if case.size:
        share = rate * case.size / disk
        shown, bar = (
            f"{rate * case.size / 1e6:.0f} MB/s = {share:.2f} of the disk",
            f"{DISK_SHARE} of the disk",
        )
        good = good and share >= DISK_SHARE
    spread = statistics.quantiles(ages, n=20) if len(ages) > 1 else [0.0] * 19
    publisher = sum(each["cpu"] for each in found)
    return [
        case.key, shown, f"{count / took:,.0f}/s",
        f"{publisher / count * 1e6:.1f}", f"{cpu / count * 1e6:.1f}",
        f"{spread[9]:.2f} / {spread[18]:.2f} / {longest:.2f}", "yes" if whole else "NO", bar,
        "yes" if good else "no",
    ], good  # fmt: skip


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _tell(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


HEADINGS = (
    "case", "recorded", "to the end", "publisher µs", "recorder µs", "acknowledged after p50 / p95 / max s",
    "complete", "bar", "met",
)  # fmt: skip


def main() -> int:
    """Run the cases; 1 when something published is neither recorded nor told as lost."""
    if sys.argv[1:2] == ["--publish"]:
        publish(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="that each case publishes; default 10")
    parser.add_argument(
        "--folder", type=Path, help="where journals are written; default the temporary folder"
    )
    parser.add_argument("--case", help="only the cases whose name contains this")
    args = parser.parse_args()
    lines, complete = list[list[str]](), True
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        disk = disk_rate(Path(name))
        print(f"the disk takes {disk / 1e6:.0f} MB/s", flush=True)
        for case in CASES:
            if args.case is None or args.case in case.key:
                line, _ = run(case, args.seconds, Path(name), disk)
                complete = complete and line[6] == "yes"
                lines.append(line)
    print(table(HEADINGS, lines))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
