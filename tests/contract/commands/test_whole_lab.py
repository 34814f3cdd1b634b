"""A whole lab in one file: five servers, a recorder and a pipeline, killed in parts and at once."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc import Proxy, PzcError, close

from tests.contract.rigs.labs import Bench, await_gone, parent

pytestmark = [
    pytest.mark.slow, pytest.mark.java, pytest.mark.once, pytest.mark.timeout(240), pytest.mark.xdist_group("spark"),
]  # fmt: skip

PATIENCE = 90.0
"""Seconds for Spark to begin and to take a batch, on a busy machine."""

INSTRUMENTS = """
import os, threading, time
import numpy
from pzc import Signal

class Counter:
    def __init__(self):
        self.counted = Signal("number")

    def count(self, first, last):
        for number in range(first, last):
            self.counted.emit(number)
        return last

class Meter:
    def __init__(self):
        self.reads = 0

    @property
    def reading(self):
        self.reads += 1
        return float(self.reads)

class Camera:
    def __init__(self):
        self.image = Signal("image")

    def shoot(self):
        self.image.emit(numpy.ones((100, 100)))

class Wrong:
    def __init__(self, address):
        raise OSError(f"no route to {address}")

class Leaving:
    def __init__(self):
        threading.Timer(0.2, os._exit, [3]).start()
"""

LAB = """
[server.counter]
object = "instruments:Counter"
restart = "always"
[server.meter]
object = "instruments:Meter"
poll = { reading = 0.1 }
[server.camera]
object = "instruments:Camera"
[server.wrong]
object = "instruments:Wrong"
args = ["10.0.0.8"]
[server.leaving]
object = "instruments:Leaving"
restart = "always"
[recorder]
journal = "journal"
[pipeline]
tables = "tables"
limits = "limits.toml"
"""

LIMITS = """
[limits.high]
agent = "meter"
topic = "reading"
where = "value_double > 3"
message = "more than 3"
"""

RUNNING = {"counter", "meter", "camera", "recorder", "pipeline"}


class Lab(Bench):
    """That lab, and what is asked of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "instruments.py").write_text(INSTRUMENTS, encoding="utf-8")
        (folder / "limits.toml").write_text(LIMITS, encoding="utf-8")
        self.write(LAB)

    def states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in self.run("status", "--json").rows}

    def pids(self) -> list[int]:
        """Of all that runs, of what holds each process, and of ``pzc up``."""
        found: list[int] = []
        for pid in [row["pid"] for row in self.run("status", "--json").rows if row["pid"]]:
            with contextlib.suppress(OSError):  # that one leaves by itself
                keeper = parent(pid)
                found += [pid, keeper, parent(keeper)]
        return list(dict.fromkeys(found))

    def kill(self, name: str) -> None:
        """Kill a process; returns when another one runs in its place."""
        pid = self.row(name)["pid"]
        os.kill(pid, signal.SIGKILL)
        self.await_row(name, lambda row: row["state"] == "running" and row["pid"] not in (0, pid))

    def count(self, first: int, last: int) -> None:
        """Have numbers published, by a server that may only just be there."""

        def counted() -> bool:
            with contextlib.suppress(PzcError, OSError):
                counter: Any = Proxy(self.row("counter")["endpoint"], timeout=10.0)
                try:
                    return counter.count(first, last) == last
                finally:
                    close(counter)
            return False

        await_true(counted)

    def journal(self) -> int:
        """Rows of the counter that are durable."""
        rows = self.run("journal", "info", "journal", "--json")
        topics = rows.json["topics"] if rows.out else []
        return sum(topic["rows"] for topic in topics if topic["topic"] == "counted")

    def numbers(self) -> list[int]:
        """What the tables have of the counter, in order."""
        return [row["number"] for row in self.ask(
            "select cast(value_json->>'$[0]' as int) as number from notifications where topic = 'counted' order by number"
        )]  # fmt: skip

    def ask(self, query: str) -> list[dict[str, Any]]:
        told = self.run("sql", query, "--tables", "tables", "--limit", "100000", "--json")
        return told.rows if told.status == 0 else []


def await_true(looked: Callable[[], object]) -> None:
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not looked():
        assert time.monotonic() < deadline, looked
        pause.wait(0.2)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    try:
        yield made
    finally:
        made.run("down")


@pytest.mark.allow_leaks("matplotlib keeps its fonts open")
def test_a_whole_lab_is_killed_in_parts_and_at_once_and_loses_nothing_that_is_durable(lab: Lab) -> None:
    started = lab.run("up")
    assert started.status == 1
    assert "no route to 10.0.0.8" in started.out
    assert "pzc logs leaving" in started.err or "leaving" in lab.run("status").out
    states = lab.states()
    assert {name for name, state in states.items() if state == "running"} >= RUNNING
    assert states["wrong"] != "running"

    lab.count(0, 100)
    lab.kill("recorder")
    lab.count(100, 200)
    await_true(lambda: lab.journal() >= 200)
    lab.kill("pipeline")
    await_true(lambda: lab.numbers() == list(range(200)))

    reboot(lab)
    assert lab.run("up").status == 1
    assert {name for name, state in lab.states().items() if state == "running"} >= RUNNING
    lab.count(200, 300)
    await_true(lambda: lab.journal() >= 300)
    await_true(lambda: lab.numbers() == list(range(300)))
    assert lab.ask("select 1 from alarms where topic = 'reading' limit 1")
    assert lab.run("report", "tables").status == 0
    assert "reading" in (lab.folder / "tables" / "report" / "index.html").read_text(encoding="utf-8")

    pids = lab.pids()
    assert lab.run("down").status == 0
    for pid in pids:
        await_gone(pid)


def reboot(lab: Lab) -> None:
    """Kill everything at once, as when the power fails."""
    pids = lab.pids()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        await_gone(pid)


def test_the_unit_that_pzc_wrote_starts_the_lab_again_and_ends_it(lab: Lab) -> None:
    lab.write(LAB.partition("[recorder]")[0])
    unit = Path(lab.run("up", "--systemd").out.split(" is written")[0]).read_text(encoding="utf-8")
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix(
        "ExecStart="
    )
    lab.run("up")
    reboot(lab)
    with subprocess.Popen(shlex.split(command), cwd="/", env=lab.environment()) as process:
        try:
            await_true(lambda: lab.run("status", "camera").status == 0)
            pids = lab.pids()
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    for pid in pids:
        await_gone(pid)
