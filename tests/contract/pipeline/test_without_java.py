"""A pipeline needs Java when there is so much to do that Spark is started, and not before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pzc.testing.journals import Recording, write_journal

from tests.contract.rigs.tables import KEY, expected, found

ROWS = 300
TIMEOUT = 60.0


def without_java(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, which has no session that another test began."""
    environment = {**os.environ, "PZC_KEY": KEY, "PZC_DISCOVERY_IP": "off", "PATH": "/nonexistent"}
    environment.pop("JAVA_HOME", None)
    command = [sys.executable, "-m", "pzc", "pipeline", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


@pytest.mark.parametrize("options", [(), ("--in-process", str(2 * ROWS))])
def test_few_rows_are_brought_into_tables_without_java(tmp_path: Path, options: tuple[str, ...]) -> None:
    truth = write_journal(tmp_path / "journal", Recording(published=ROWS))
    done = without_java(tmp_path, "run", "journal", "tables", "--once", *options)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "tables") == expected(truth)


@pytest.mark.parametrize("options", [("--in-process", "10"), ("--master", "spark://127.0.0.1:1")])
def test_what_spark_has_to_do_says_that_java_is_missing(tmp_path: Path, options: tuple[str, ...]) -> None:
    write_journal(tmp_path / "journal", Recording(published=ROWS))
    done = without_java(tmp_path, "run", "journal", "tables", "--once", *options)
    assert done.returncode == 1
    assert "no Java found in PATH" in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(found(tmp_path / "tables").values())
