"""The file of an audit log, as systems want it that rename no open file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pzc.agents import AuditFile

TIMEOUT = 20.0

ROTATING = """
import os, sys
from pzc.agents.server.audit_file import AuditFile

def watch(event, arguments):
    if event == "os.rename":
        renamed.append(os.stat(arguments[0]).st_ino)
        still_open.extend(set(renamed) & {inode(name) for name in os.listdir("/proc/self/fd")})

def inode(name):
    try:
        return os.stat(f"/proc/self/fd/{name}").st_ino
    except OSError:
        return 0

renamed, still_open = [], []
sys.addaudithook(watch)
file = AuditFile(sys.argv[1], max_bytes=100, keep=3)
for number in range(10):
    assert file.append([b"x" * 40 + b"\\n"]) == (1, None)
print(len(renamed), len(still_open))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="what a process has open is asked of Linux")
def test_no_file_is_renamed_while_it_is_open(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ROTATING, str(tmp_path / "log")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout
    renamed, still_open = map(int, told.split())
    assert renamed > 1
    assert still_open == 0


def appended(path: Path, count: int, max_bytes: int, keep: int) -> list[list[int]]:
    """The numbers of the lines in each file, the newest last, after so many were written one at a time."""
    file = AuditFile(str(path), max_bytes, keep)
    for number in range(count):
        assert file.append([b"%04d\n" % number])[0] == 1
    file.close()
    names = [path, *(Path(f"{path}.{number}") for number in range(1, keep + 1))]
    return [[*map(int, name.read_text().split())] for name in reversed(names) if name.is_file()]


def test_rotation_keeps_the_size_and_the_newest_files(tmp_path: Path) -> None:
    assert appended(tmp_path / "log", 14, max_bytes=20, keep=2) == [[4, 5, 6, 7], [8, 9, 10, 11], [12, 13]]


def test_a_line_above_the_size_is_written_whole(tmp_path: Path) -> None:
    assert appended(tmp_path / "log", 3, max_bytes=2, keep=5) == [[0], [1], [2]]


def test_a_file_that_cannot_be_renamed_grows(tmp_path: Path) -> None:
    (tmp_path / "log.1" / "occupied").mkdir(parents=True)
    assert appended(tmp_path / "log", 6, max_bytes=10, keep=1) == [[0, 1, 2, 3, 4, 5]]
