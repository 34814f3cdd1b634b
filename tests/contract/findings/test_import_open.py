"""How long `import pzc` takes, and what it brings along."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.contract.findings.marks import finding

TIMES = 5
IDLE = {"cryptography.x509", "importlib.metadata", "numpy", "sqlite3", "tenacity", "tomllib", "zmq.asyncio"}
"""What most programs never use, and those that do may import then."""


def seconds(code: str) -> float:
    """The least processor time of a new interpreter that runs some code."""
    found: list[float] = []
    for _ in range(TIMES):
        pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-P", "-c", code])
        _, status, usage = os.wait4(pid, 0)
        assert status == 0
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found)


@finding("5.14", open=True, reason="it takes five times as long as numpy's")
@pytest.mark.serial
def test_an_import_takes_no_more_than_two_of_numpy() -> None:
    """On the machine where numpy takes 0.07 s these are 0.15 s."""
    nothing = seconds("pass")
    assert seconds("import pzc") - nothing <= 2.1 * (seconds("import numpy") - nothing)


@finding("5.14", open=True, reason="numpy and others are imported for everybody")
def test_an_import_brings_nothing_that_most_programs_never_use() -> None:
    code = "import sys, pzc; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not IDLE & set(done.stdout.split())
