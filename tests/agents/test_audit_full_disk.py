from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TIMEOUT = 20.0


def numbers(lines: list[dict[str, Any]]) -> list[int]:
    return [line["args"][0] for line in lines if "args" in line]


def lost(lines: list[dict[str, Any]]) -> int:
    return sum(line.get("lost", 0) for line in lines)


def run(code: str, *arguments: object) -> str:
    """What a process of its own prints; it knows the names of the tests of the log."""
    command = [sys.executable, "-c", f"from tests.agents.test_audit import *\n{code}", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "psu.audit.jsonl"


FILLING = """
import resource
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
audit = Audit(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
for number in range(20):
    audit.record(call(number))
until(lambda: audit.errors)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
audit.record(call(20))
audit.close()
print(audit.written, audit.dropped)
"""


def test_a_disk_that_fills_up_within_a_line_loses_exactly_what_is_told(path: Path) -> None:
    written, dropped = map(int, run(FILLING, path).split())
    lines = path.read_bytes().splitlines()
    (broken,) = [line for line in lines if not line.endswith(b"}")]
    whole = [json.loads(line) for line in lines if line != broken]
    assert numbers(whole) == [*range(written - 1), 20]
    assert lost(whole) == dropped == 21 - written > 0
