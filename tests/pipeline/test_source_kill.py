"""Exactly once: the driver of a query is killed in the middle of batches, and every row stands there once.

``PIPELINE_MOMENTS=50`` with ``-o faulthandler_timeout=7200`` kills it 50 times instead of a few.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.contract.rigs.peers import KEY
from tests.pipeline.source_rig import PATIENCE, Publishers, await_, is_read, waiting

KILLS = int(os.environ.get("PIPELINE_MOMENTS", "3"))
BATCH = 3_000
ROWS = 2 * BATCH * (KILLS + 4)
"""A killed driver has always more than one batch before it."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(max(280, 60 * KILLS)),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]


class Driver:
    """A running driver: a Python program, its JVM, and the process that reads the mailboxes."""

    def __init__(self, *args: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.source_driver", *map(str, args)],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def family(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def kill(self) -> list[psutil.Process]:
        """SIGKILL for the JVM and its Python program; the others, which have to end by themselves."""
        family = self.family()
        jvms = [each for each in family if _name(each) == "java"]
        for pid in (*(jvm.pid for jvm in jvms), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(20)
        return [each for each in family if each not in jvms]


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def _ended(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def _count(folder: Path) -> int:
    return sum(path.name.isdigit() for path in folder.iterdir()) if folder.is_dir() else 0


def _await_batch(driver: Driver, batches: int, checkpoint: Path) -> None:
    """Return in the middle of a batch, when so many were committed."""

    def within() -> bool:
        assert driver.process.poll() is None
        return _count(checkpoint / "offsets") > _count(checkpoint / "commits") >= batches

    await_(within)


def test_kills_in_the_middle_of_batches_leave_every_row_exactly_once(
    spark, publishers: Publishers, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    hands = [publishers.start() for _ in range(2)]
    agents = ",".join(hand.ask("endpoint") for hand in hands)
    given = (agents, "kill", tmp_path, tmp_path / "key")
    for kill in range(KILLS):
        driver = Driver(*given, BATCH)
        try:
            if kill == 0:
                await_(lambda: all(map(is_read, hands)))
                for hand in hands:
                    hand.start("publish", "t", ROWS // 2)
            _await_batch(driver, kill + 1, tmp_path / "checkpoint")
        finally:
            left = driver.kill()
        await_(lambda left=left: all(map(_ended, left)), seconds=20.0)
    assert [hand.finish(PATIENCE) for hand in hands] == [ROWS // 2] * 2
    assert Driver(*given, ROWS, "once").process.wait(PATIENCE) == 0
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.count() == ROWS
    assert table.select("publisher", "epoch", "topic", "sequence").distinct().count() == ROWS
    assert table.select("msgid").distinct().count() == ROWS
    await_(lambda: sum(map(waiting, hands)) == 0, seconds=20.0)
