"""Damaged contents of strangers: refused or read, in bounded memory and time."""

from __future__ import annotations

import secrets
import subprocess
import sys

import pytest

SECONDS = 60


@pytest.mark.slow
@pytest.mark.timeout(4 * SECONDS)
def test_damaged_contents_are_refused_or_read() -> None:
    seed = secrets.randbits(32)
    program = [sys.executable, "-m", "tests.protocol.fuzzing", str(seed), str(SECONDS)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
