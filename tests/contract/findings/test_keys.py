"""Keys and files that others must not read: lines 4.19 and 4.20."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pzc import Agent
from pzc.testing import Running, command

from tests.contract.findings.marks import finding

pytest.importorskip("pyarrow")

LARGE = 1 << 21
"""Bytes of a content that stands in a file of its own."""


def open_to_others(folder: Path) -> list[str]:
    """Everything below a folder, and itself, that group or others may touch."""
    found = [folder, *folder.rglob("*")]
    return [f"{path.name} {path.stat().st_mode:o}" for path in found if path.stat().st_mode & 0o077]


@finding("4.20")
def test_everything_that_a_recorder_writes_is_its_owners_alone(tmp_path: Path) -> None:
    journal = tmp_path / "of the lab" / "journal"
    with Agent(name="source", discovery=False) as source:

        def record(running: Running) -> None:
            running.line()
            source.publish("v", 1)
            source.publish("frames", bytes(LARGE))

        outcome = command("record", source.rep_endpoint, "--journal", str(journal), meanwhile=record)
    assert outcome.status == 0, outcome.err
    assert list(journal.glob("*.parquet"))
    assert list(journal.glob("blobs/*/*"))
    assert open_to_others(tmp_path / "of the lab") == []
    assert stat.S_IMODE(journal.stat().st_mode) == 0o700
